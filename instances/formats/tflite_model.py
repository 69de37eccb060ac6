"""TensorFlow Lite models as the Micro runtime plans them, and the plan in their metadata.

Note: how a model is changed without being rebuilt
--------------------------------------------------
Rationale. A model is a tree of tables that point forwards by distances. A writer that built the
tree anew would have to know every table of every version.

Approach. A new root stands before the old file, whose bytes stay as they are. The new root points
forwards to the old lists, but the lists of buffers and of metadata are new: each has the old
entries and one more. A metadata entry that had the plan's name before is left out.

Limits. A model above 2 GiB has data behind its tables, at places counted from the beginning of the
file. The new root would move that data, so such a model is refused.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from instances.extract.tracing.storages import Kernel, StepPhase, planned_storages
from instances.formats.model_problem import ModelTensor, model_problem
from instances.formats.plan_target import require_valid_plan
from planners.errors import GaplessError, InstanceError, MissingDependencyError, errors_at
from planners.files.bounded_file import read_bounded
from planners.files.file_limits import MAX_MODEL_BYTES, Allowance, Work, element_count
from planners.files.formats import Format
from planners.files.output_file import write_output
from planners.model.plan import Plan, Result
from planners.model.problem import Problem
from planners.text.plain_text import one_line, shown

IDENTIFIER = b"TFL3"
METADATA_NAME = b"OfflineMemoryAllocation"
# Alignment of every tensor in the arena of the runtime, in bytes.
ARENA_ALIGNMENT = 16
# Version of the metadata, and the number of the subgraph, before the count and the offsets.
HEADER = (1, 0)
NOT_PLANNED = -1
# A table takes at least 40 bytes, and here some 0.1 ms. Tables may share vectors and names, whose
# entries count each time they are read.
TABLES = Allowance("tensors, operators and entries", free=1 << 12, for_bytes=24)
ENTRIES = Allowance("numbers and letters, each as often as it is read", free=1 << 16, for_bytes=1)

_BITS = {
    "BFLOAT16": 16, "BOOL": 8, "COMPLEX128": 128, "COMPLEX64": 64, "FLOAT16": 16, "FLOAT32": 32,
    "FLOAT64": 64, "INT16": 16, "INT32": 32, "INT4": 4, "INT64": 64, "INT8": 8, "UINT16": 16,
    "UINT32": 32, "UINT64": 64, "UINT8": 8,
}  # fmt: skip


@dataclass(frozen=True)
class TfliteModel:
    """A model that has been read."""

    problem: Problem
    # Number in the file of each tensor of the problem.
    tensors: list[int]
    # Number of tensors in the file, weights included.
    tensor_count: int
    # Offsets of its metadata, one a tensor of the file; None without any.
    offsets: list[int] | None

    @property
    def plan(self) -> Plan | None:
        """The plan of the metadata, not judged; None if it leaves a tensor to the runtime."""
        if self.offsets is None or len(self.offsets) != self.tensor_count:
            return None
        offsets = [self.offsets[tensor] for tensor in self.tensors]
        return None if NOT_PLANNED in offsets else Plan.of(self.problem, offsets)


def read_tflite_problem(path: Path) -> Problem:
    """Read a TensorFlow Lite model as the problem of the tensors in its arena.

    Operators run in the file's order on one stream. As in the Micro runtime, a node before them
    makes the inputs and a node behind them reads the outputs. Tensors with data are weights; they
    and variables have memory of their own. A tensor starts at a multiple of 16. The file does not
    have the buffers that a kernel requests when it is prepared.

    Source: https://github.com/tensorflow/tflite-micro, ``docs/memory_management.md``.
    """
    return read_tflite_model(path).problem


def read_tflite_model(path: Path) -> TfliteModel:
    """Read a model together with the plan in its metadata."""
    with errors_at(path):
        data = read_bounded(path, MAX_MODEL_BYTES)
        try:
            import tflite
        except ImportError as error:
            raise MissingDependencyError(
                f"{path}: TensorFlow Lite models need the package tflite ({error})", "tflite"
            ) from None
        if data[4:8] != IDENTIFIER:
            raise InstanceError("the file is no TensorFlow Lite model")
        try:
            return _read(tflite.Model.GetRootAs(data), len(data), path)
        except GaplessError:
            raise
        except (IndexError, TypeError, ValueError, AttributeError, struct.error) as error:
            raise InstanceError(f"the file is no whole model: {error}") from None


TFLITE_MODEL = Format(
    "tflite",
    (".tflite",),
    lambda _path, head: head[4:8] == IDENTIFIER,
    read_tflite_problem,
)


def _read(model: Any, file_bytes: int, path: Path) -> TfliteModel:
    if model.SubgraphsLength() != 1:
        raise InstanceError(f"one subgraph is needed, found {model.SubgraphsLength()}")
    graph = model.Subgraphs(0)
    count, operators = graph.TensorsLength(), graph.OperatorsLength()
    listed = model.BuffersLength() + model.MetadataLength()
    TABLES.require(count + operators + model.MetadataLength(), file_bytes)
    if 4 * (count + operators + listed) > file_bytes:
        raise InstanceError("the file is no whole model: it declares more than it holds")
    entries = Work(ENTRIES, file_bytes)
    is_planned = [_is_planned(model, graph.Tensors(tensor)) for tensor in range(count)]
    kernels = _kernels(model, graph, is_planned, entries)
    tensors = planned_storages(kernels)
    named = [(number, graph.Tensors(number)) for number in tensors]
    placed = [
        ModelTensor(
            _name_of(tensor, number, entries), _bytes_of(tensor, number, entries), ARENA_ALIGNMENT
        )
        for number, tensor in named
    ]
    weights = (number for number in range(count) if not is_planned[number])
    persistent = sum(_bytes_of(graph.Tensors(number), number, entries) for number in weights)
    problem = model_problem(path, TFLITE_MODEL.name, kernels, placed, persistent)
    return TfliteModel(problem, tensors, count, _offsets(model, entries))


def _kernels(model: Any, graph: Any, is_planned: list[bool], entries: Work) -> list[Kernel]:
    import tflite

    made: set[int] = set()
    tensors = range(len(is_planned))
    variables = {number for number in tensors if graph.Tensors(number).IsVariable()}

    def begin(numbers: Any, where: str) -> tuple[int, ...]:
        new = [int(number) for number in numbers if is_planned[number]]
        for tensor in new:
            if tensor in made:
                raise InstanceError(f"{where}: tensor {tensor} is made a second time")
            made.add(tensor)
        return tuple(new)

    def find(numbers: Any, where: str) -> tuple[int, ...]:
        read = dict.fromkeys(int(number) for number in numbers if number >= 0)
        for tensor in read:
            if is_planned[tensor] and tensor not in made:
                raise InstanceError(f"{where}: nothing before it makes tensor {tensor}")
        return tuple(tensor for tensor in read if is_planned[tensor])

    forward = StepPhase.FORWARD
    kernels = [Kernel("input", forward, creates=begin(_numbers(graph, "Inputs", entries), "input"))]
    for index in range(graph.OperatorsLength()):
        operator = graph.Operators(index)
        code = model.OperatorCodes(operator.OpcodeIndex())
        kind = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = tflite.opcode2name(kind)
        where = f"operator {index} ({name})"
        inputs = _numbers(operator, "Inputs", entries)
        reads = find(inputs, where)
        # An operator with a variable among its inputs changes it in place.
        given = dict.fromkeys(number for number in inputs if number >= 0)
        writes = tuple(number for number in given if number in variables)
        creates = begin(_numbers(operator, "Outputs", entries), where)
        kernels.append(Kernel(name, forward, reads=reads, writes=writes, creates=creates))
    returned = find(_numbers(graph, "Outputs", entries), "output")
    return [*kernels, Kernel("output", forward, reads=returned)]


def _numbers(table: Any, field: str, entries: Work) -> Any:
    if getattr(table, f"{field}IsNone")():
        return []
    entries.charge(getattr(table, f"{field}Length")())
    return getattr(table, f"{field}AsNumpy")().tolist()


def _is_planned(model: Any, tensor: Any) -> bool:
    buffer = model.Buffers(tensor.Buffer())
    has_data = buffer is not None and (buffer.DataLength() > 0 or buffer.Offset() > 1)
    return not has_data and not tensor.IsVariable()


@cache
def _kinds() -> dict[int, str]:
    import tflite

    return {number: kind for kind, number in vars(tflite.TensorType).items() if kind in _BITS}


def _bytes_of(tensor: Any, index: int, entries: Work) -> int:
    kind = _kinds().get(tensor.Type())
    if kind is None:
        raise InstanceError(
            f"tensor {index}: elements of a fixed size are needed, found type {tensor.Type()}"
        )
    count = element_count(_numbers(tensor, "Shape", entries), f"tensor {index}")
    return -(-count * _BITS[kind] // 8)


def _name_of(tensor: Any, index: int, entries: Work) -> str:
    name = tensor.Name() or b""
    entries.charge(len(name))
    return one_line(name.decode("utf-8", "replace")) or f"tensor {index}"


def _offsets(model: Any, entries: Work) -> list[int] | None:
    for index in range(model.MetadataLength()):
        entry = model.Metadata(index)
        name = entry.Name() or b""
        entries.charge(len(name))
        if name == METADATA_NAME:
            content = bytes(model.Buffers(entry.Buffer()).DataAsNumpy())
            words = struct.unpack(f"<{len(content) // 4}i", content[: len(content) // 4 * 4])
            if len(words) < 3 or words[2] != len(words) - 3:
                raise InstanceError(
                    f"metadata {METADATA_NAME.decode()}: a version, a subgraph, a count and as "
                    f"many offsets are needed, found {shown(list(words))}"
                )
            return list(words[3:])
    return None


# Of the root table, in the order of the schema.
FIELDS = (
    "version", "operator_codes", "subgraphs", "description", "buffers", "metadata_buffer",
    "metadata", "signature_defs",
)  # fmt: skip
_FIRST_LIST = 8 + 4 + 2 * len(FIELDS) + 4 + 4 * len(FIELDS)
# No alignment in the old file is larger than this many bytes; a guess.
_SHIFT_ALIGNMENT = 64


def write_offline_allocation(source: Path, problem: Problem, result: Result, path: Path) -> None:
    """Write a copy of a model with a plan, which is judged first.

    The metadata has an offset for each tensor of the file, -1 for weights and variables. The
    runtime places the kernels' own buffers around the planned tensors.
    """
    assert result.plan is not None
    model = read_tflite_model(source)
    if model.problem.tensor_count != problem.tensor_count:
        raise InstanceError(f"{source}: a plan for this very model is needed, found another")
    require_valid_plan(problem, result.plan)
    if result.plan.peak >= 1 << 31:
        raise InstanceError(f"{path}: offsets of 32 bits are needed, found {result.plan.peak}")
    offsets = [NOT_PLANNED] * model.tensor_count
    for tensor, offset in zip(model.tensors, result.plan.offsets.tolist(), strict=True):
        offsets[tensor] = offset
    words = [*HEADER, len(offsets), *offsets]
    with errors_at(source):
        data = read_bounded(source, MAX_MODEL_BYTES)
        write_output(path, _with_metadata(data, struct.pack(f"<{len(words)}i", *words)))


def _with_metadata(data: bytes, content: bytes) -> bytes:
    import tflite

    model = tflite.Model.GetRootAs(data)
    buffers = [_table(model.Buffers(index)) for index in range(model.BuffersLength())]
    if any(model.Buffers(index).Offset() > 1 for index in range(len(buffers))):
        raise InstanceError("data within the tables is needed, found data behind them")
    entries = [model.Metadata(index) for index in range(model.MetadataLength())]
    kept = [_table(entry) for entry in entries if entry.Name() != METADATA_NAME]
    old = _old_fields(data)
    # New parts, each at a multiple of 4: the beginnings of the lists, then the new entries.
    buffer_list = _FIRST_LIST
    metadata_list = buffer_list + 4 * (len(buffers) + 2)
    entry = metadata_list + 4 * (len(kept) + 2) + 8
    name = entry + 12
    buffer = name + 4 + len(METADATA_NAME) // 4 * 4 + 4 + 8
    # The schema wants the plan's numbers, behind their count, at a multiple of 16.
    numbers = _rounded_up(buffer + 8 + 4, 16) - 4
    shift = _rounded_up(numbers + 4 + len(content), _SHIFT_ALIGNMENT)

    new = bytearray(shift)
    table = 8 + 4 + 2 * len(FIELDS)
    struct.pack_into("<I4s", new, 0, table, IDENTIFIER)
    struct.pack_into("<HH", new, 8, 4 + 2 * len(FIELDS), 4 + 4 * len(FIELDS))
    struct.pack_into("<i", new, table, table - 8)
    targets = {"buffers": buffer_list, "metadata": metadata_list}
    for index, field in enumerate(FIELDS):
        place = table + 4 + 4 * index
        if field == "version":
            struct.pack_into("<I", new, place, model.Version())
        elif field in targets:
            struct.pack_into("<I", new, place, targets[field] - place)
        elif field in old:
            struct.pack_into("<I", new, place, old[field] + shift - place)
        else:
            continue
        struct.pack_into("<H", new, 8 + 4 + 2 * index, 4 + 4 * index)
    _put_list(new, buffer_list, [*(each + shift for each in buffers), buffer])
    _put_list(new, metadata_list, [*(each + shift for each in kept), entry])
    struct.pack_into("<HHHH", new, entry - 8, 8, 12, 4, 8)
    struct.pack_into("<iII", new, entry, 8, name - (entry + 4), len(buffers))
    struct.pack_into(f"<I{len(METADATA_NAME)}s", new, name, len(METADATA_NAME), METADATA_NAME)
    struct.pack_into("<HHH", new, buffer - 8, 6, 8, 4)
    struct.pack_into("<iI", new, buffer, 8, numbers - (buffer + 4))
    struct.pack_into("<I", new, numbers, len(content))
    new[numbers + 4 : numbers + 4 + len(content)] = content
    return bytes(new) + data


def _old_fields(data: bytes) -> dict[str, int]:
    """Return the places of the lists and texts of the old root."""
    (table,) = struct.unpack_from("<I", data)
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    known = 4 + 2 * len(FIELDS)
    if size > known:
        raise InstanceError(f"a root of at most {len(FIELDS)} fields is known, found more")
    found = {}
    for index, field in enumerate(FIELDS[: (size - 4) // 2]):
        (within,) = struct.unpack_from("<H", data, table - back + 4 + 2 * index)
        if within and field != "version":
            (distance,) = struct.unpack_from("<I", data, table + within)
            found[field] = table + within + distance
    return found


def _put_list(new: bytearray, place: int, targets: list[int]) -> None:
    struct.pack_into("<I", new, place, len(targets))
    for index, target in enumerate(targets, start=1):
        struct.pack_into("<I", new, place + 4 * index, target - (place + 4 * index))


def _table(entry: Any) -> int:
    place: int = entry._tab.Pos
    return place


def _rounded_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
