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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from instances.formats.model_problem import (
    ModelTensor,
    Operators,
    model_problem,
    warn_of_left_out,
)
from instances.formats.plan_target import require_valid_plan
from planners.errors import GaplessError, InstanceError, MissingDependencyError, errors_at
from planners.files.bounded_file import read_bounded
from planners.files.file_limits import MAX_MODEL_BYTES, Allowance, ReadingWork, element_count
from planners.files.formats import Format
from planners.files.output_file import write_output
from planners.model.plan import Plan, Result
from planners.model.problem import Problem
from planners.referee.fast import find_violation_fast
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
    # The handle of a variable, whose bytes are the runtime's.
    "RESOURCE": 0,
}  # fmt: skip


@dataclass(frozen=True)
class TfliteModel:
    """A model that has been read."""

    problem: Problem
    # Number in its subgraph of each tensor of the problem.
    tensors: list[int]
    # Number of tensors in the file, weights included.
    tensor_count: int
    # Number of subgraphs in the file; only the metadata of one subgraph is read or written.
    subgraph_count: int
    # Offsets of its metadata, one a tensor of the file; None without any.
    offsets: list[int] | None
    # True if the file has tensors that nobody makes.
    has_scratch: bool

    @property
    def plan(self) -> Plan | None:
        """The plan of the metadata, not judged; None if it leaves a tensor to the runtime.

        A compiler lets its scratch memory overlap other tensors on purpose, as it knows how long
        its kernels need each. The file does not say that, so such a plan is none of this problem.
        """
        if self.offsets is None or len(self.offsets) != self.tensor_count:
            return None
        offsets = [self.offsets[tensor] for tensor in self.tensors]
        plan = None if NOT_PLANNED in offsets else Plan.of(self.problem, offsets)
        if plan is not None and self.has_scratch and find_violation_fast(self.problem, plan):
            why = "it lets scratch memory overlap other tensors, which only its compiler can judge"
            warn_of_left_out(self.problem.name, "the plan of the file", why)
            return None
        return plan


def read_tflite_problem(path: Path) -> Problem:
    """Read a TensorFlow Lite model as the problem of the tensors in its arena.

    Operators run in the file's order on one stream. As in the Micro runtime, a node before them
    makes the inputs and a node behind them reads the outputs. All subgraphs are in one arena: those
    that an operator calls, both branches of an ``IF`` among them, run behind it, and what it reads
    and makes lives until they end. A tensor that nobody makes is a compiler's scratch memory and
    lives from the first node on. Tensors with data are weights; they and variables have memory of
    their own. A tensor starts at a multiple of 16. The file does not have the buffers that a kernel
    requests when it is prepared.

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
            raise InstanceError(f"truncated or damaged TFLite file: {error}") from None


TFLITE_MODEL = Format(
    "tflite",
    (".tflite",),
    lambda _path, head: head[4:8] == IDENTIFIER,
    read_tflite_problem,
)


def _read(model: Any, file_bytes: int, path: Path) -> TfliteModel:
    graphs = [model.Subgraphs(number) for number in range(model.SubgraphsLength())]
    counts = [graph.TensorsLength() for graph in graphs]
    tables = sum(counts) + sum(graph.OperatorsLength() for graph in graphs)
    listed = model.BuffersLength() + model.MetadataLength()
    TABLES.require(tables + model.MetadataLength(), file_bytes)
    if 4 * (tables + listed) > file_bytes:
        raise InstanceError("truncated or damaged TFLite file: it declares more than it holds")
    entries = ReadingWork(ENTRIES, file_bytes)
    run = _Subgraphs(model, graphs, entries, ReadingWork(TABLES, file_bytes))
    operators = run.operators

    def tensor_of(at: Place) -> ModelTensor:
        tensor = graphs[at.graph].Tensors(at.tensor)
        size = _bytes_of(tensor, at.tensor, entries)
        return ModelTensor(_name_of(tensor, at.tensor, entries), size, ARENA_ALIGNMENT)

    persistent = sum(
        _bytes_of(graphs[at.graph].Tensors(at.tensor), at.tensor, entries) for at in operators.kept
    )
    problem = model_problem(path, TFLITE_MODEL.name, operators, tensor_of, persistent)
    tensors = [at.tensor for at in operators.planned]
    # The runtime reads the offsets of the first subgraph for the tensors of all others as well.
    offsets = _offsets(model, entries) if len(graphs) == 1 else None
    return TfliteModel(problem, tensors, sum(counts), len(graphs), offsets, run.has_scratch)


class Place(NamedTuple):
    """A tensor of a file: its subgraph, and its number there."""

    graph: int
    tensor: int

    def __repr__(self) -> str:
        return f"tensor {self.tensor}"


_CALLS = {
    "CALL": ("CallOptions", ("Subgraph",)),
    "CALL_ONCE": ("CallOnceOptions", ("InitSubgraphIndex",)),
    "IF": ("IfOptions", ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "WHILE": ("WhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
}
MAX_CALLS_IN_CALLS = 64


class _Subgraphs:
    """Goes through a model; the subgraphs that an operator calls run right behind it."""

    def __init__(
        self, model: Any, graphs: list[Any], entries: ReadingWork, tables: ReadingWork
    ) -> None:
        self.model, self.graphs, self.entries, self.tables = model, graphs, entries, tables
        places = [
            Place(number, tensor)
            for number, graph in enumerate(graphs)
            for tensor in range(graph.TensorsLength())
        ]
        found = {at: graphs[at.graph].Tensors(at.tensor) for at in places}
        self.variables = {at for at, tensor in found.items() if tensor.IsVariable()}
        self.planned = {at for at, tensor in found.items() if _is_planned(model, tensor)}
        self.operators = Operators(at for at in places if at not in self.planned)
        self.has_scratch = False
        # Subgraphs that have begun and not ended, the outermost first.
        self.open: list[int] = []
        returned = self._run(0, "input")
        self.operators.add("output", "output", returned)

    def _run(self, number: int, name: str) -> list[Place]:
        """Add the operators of a subgraph, and return what it returns."""
        if number in self.open or len(self.open) > MAX_CALLS_IN_CALLS:
            raise InstanceError(
                f"subgraph {number}: calls at most {MAX_CALLS_IN_CALLS} deep are needed, and no "
                f"subgraph that calls itself"
            )
        if not 0 <= number < len(self.graphs):
            raise IndexError(f"subgraph {number} is not there")
        self.open.append(number)
        graph = self.graphs[number]
        within = f"subgraph {number}, " if number else ""
        calls = [graph.Operators(index) for index in range(graph.OperatorsLength())]
        outputs = [self._places(number, call, "Outputs") for call in calls]
        given, returned = (self._places(number, graph, field) for field in ("Inputs", "Outputs"))
        made = set(chain(given, *outputs))
        begun: set[Place] = set()
        self._add(name, f"{within}input", (), given, begun)
        for index, (call, results) in enumerate(zip(calls, outputs, strict=True)):
            self.tables.charge()
            code = self.model.OperatorCodes(call.OpcodeIndex())
            kind = _kind_name(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()))
            where = f"{within}operator {index} ({kind})"
            inputs = self._places(number, call, "Inputs")
            self._begin_scratch(inputs, made)
            self._add(kind, where, inputs, results, begun)
            for called in _called(kind, call):
                kept = [*self._run(called, kind), *inputs, *results]
                self.operators.use(kept, f"{where}, output")
        self._begin_scratch(returned, made)
        self.open.pop()
        return returned

    def _add(
        self, kind: str, where: str, reads: Sequence[Place], makes: Sequence[Place],
        begun: set[Place],
    ) -> None:  # fmt: skip
        """Add an operator; a subgraph that runs again writes the tensors of its first run."""
        results = [at for at in makes if at in self.planned]
        again = [at for at in results if at in self.operators and at not in begun]
        begun.update(results)
        # An operator with a variable among its inputs changes it in place.
        writes = [*again, *(at for at in reads if at in self.variables)]
        self.operators.add(kind, where, reads, (at for at in results if at not in again), writes)

    def _begin_scratch(self, reads: Iterable[Place], made: set[Place]) -> None:
        """Begin what nobody makes: a compiler's scratch memory, which lives from the start on."""
        for at in reads:
            if at not in made and at not in self.operators:
                self.operators.make_first(at)
                self.has_scratch = True

    def _places(self, number: int, table: Any, field: str) -> list[Place]:
        found = [tensor for tensor in _numbers(table, field, self.entries) if tensor >= 0]
        if max(found, default=0) >= max(self.graphs[number].TensorsLength(), 1):
            raise IndexError(f"tensor {max(found)} of subgraph {number} is not there")
        return [Place(number, tensor) for tensor in found]


def _kind_name(kind: int) -> str:
    import tflite

    name: str = tflite.opcode2name(kind)
    return name


def _called(kind: str, call: Any) -> list[int]:
    """Return the subgraphs that an operator calls, in the order in which the runtime plans them."""
    import tflite

    if kind not in _CALLS:
        return []
    name, fields = _CALLS[kind]
    if call.BuiltinOptionsType() != getattr(tflite.BuiltinOptions, name):
        raise ValueError(f"{kind} without {name}")
    options, table = getattr(tflite, name)(), call.BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    return [getattr(options, field)() for field in fields]


def _numbers(table: Any, field: str, entries: ReadingWork) -> Any:
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


def _bytes_of(tensor: Any, index: int, entries: ReadingWork) -> int:
    kind = _kinds().get(tensor.Type())
    if kind is None:
        raise InstanceError(
            f"tensor {index}: elements of a fixed size are needed, found type {tensor.Type()}"
        )
    count = element_count(_numbers(tensor, "Shape", entries), f"tensor {index}")
    return -(-count * _BITS[kind] // 8)


def _name_of(tensor: Any, index: int, entries: ReadingWork) -> str:
    name = tensor.Name() or b""
    entries.charge(len(name))
    return one_line(name.decode("utf-8", "replace")) or f"tensor {index}"


def _offsets(model: Any, entries: ReadingWork) -> list[int] | None:
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
    if model.subgraph_count != 1:
        raise InstanceError(
            f"{source}: a model of one subgraph is needed to hold a plan, found "
            f"{model.subgraph_count}: the runtime gives the offsets of the first to all"
        )
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
