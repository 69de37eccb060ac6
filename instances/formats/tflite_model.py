"""TensorFlow Lite models as the Micro runtime plans them, with the plan that they may carry."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from instances.extract.tracing.kernel_graph import planned_storages
from instances.extract.tracing.storages import Kernel, StepPhase
from instances.formats.model_problem import ModelTensor, model_problem
from planners import Plan, Problem
from planners.errors import GaplessError, InstanceError, MissingDependencyError, errors_at
from planners.files.bounded_file import read_bounded
from planners.files.formats import Format
from planners.text.plain_text import one_line, shown

# Offsets in the file have 32 bits, of which one is a sign.
MAX_FILE_BYTES = 1 << 31
IDENTIFIER = b"TFL3"
METADATA_NAME = b"OfflineMemoryAllocation"
# What the runtime aligns every tensor in its arena to.
ARENA_ALIGNMENT = 16
# Version of the metadata, and the number of the subgraph, before the count and the offsets.
HEADER = (1, 0)
NOT_PLANNED = -1

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
    # How many tensors the file has, weights included.
    tensor_count: int
    # Offsets of its metadata, one a tensor of the file; None without any.
    offsets: list[int] | None

    @property
    def plan(self) -> Plan | None:
        """The plan of the metadata, not judged; None where it leaves a tensor to the runtime."""
        if self.offsets is None or len(self.offsets) != self.tensor_count:
            return None
        offsets = [self.offsets[tensor] for tensor in self.tensors]
        return None if NOT_PLANNED in offsets else Plan.of(self.problem, offsets)


def read_tflite_problem(path: Path) -> Problem:
    """Read a TensorFlow Lite model as the problem of the tensors in its arena.

    Operators run in the file's order on one stream, between a node that makes the inputs and one
    that reads the outputs, which is when the Micro runtime has them. Tensors with data are weights
    and stay apart, as variables do; a tensor starts at a multiple of 16. What a kernel asks for
    itself when it is prepared is not in the file.

    Raises
    ------
    InstanceError
        The file breaks a rule, or has several subgraphs, of which the runtime plans none offline.
    MissingDependencyError
        The package `tflite` is not installed.

    References
    ----------
    https://github.com/tensorflow/tflite-micro, ``docs/memory_management.md``.
    """
    return read_tflite_model(path).problem


def read_tflite_model(path: Path) -> TfliteModel:
    """Read a model together with the plan in its metadata."""
    with errors_at(path):
        data = read_bounded(path, MAX_FILE_BYTES)
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
    if 4 * (count + operators + model.BuffersLength() + model.MetadataLength()) > file_bytes:
        raise InstanceError("the file is no whole model: it says more than it holds")
    is_planned = [_is_planned(model, graph.Tensors(tensor)) for tensor in range(count)]
    kernels = _kernels(model, graph, is_planned)
    tensors = planned_storages(kernels)
    named = [(number, graph.Tensors(number)) for number in tensors]
    placed = [
        ModelTensor(_name_of(tensor, number), _bytes_of(tensor, number), ARENA_ALIGNMENT)
        for number, tensor in named
    ]
    weights = (number for number in range(count) if not is_planned[number])
    persistent = sum(_bytes_of(graph.Tensors(number), number) for number in weights)
    problem = model_problem(path, TFLITE_MODEL.name, kernels, placed, persistent)
    return TfliteModel(problem, tensors, count, _offsets(model))


def _kernels(model: Any, graph: Any, is_planned: list[bool]) -> list[Kernel]:
    import tflite

    made: set[int] = set()

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
    kernels = [Kernel("input", forward, creates=begin(_numbers(graph, "Inputs"), "input"))]
    for index in range(graph.OperatorsLength()):
        operator = graph.Operators(index)
        code = model.OperatorCodes(operator.OpcodeIndex())
        kind = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = tflite.opcode2name(kind)
        where = f"operator {index} ({name})"
        reads = find(_numbers(operator, "Inputs"), where)
        # An operator that is given a variable changes it in place.
        inputs = (int(number) for number in _numbers(operator, "Inputs") if number >= 0)
        writes = tuple(number for number in inputs if graph.Tensors(number).IsVariable())
        creates = begin(_numbers(operator, "Outputs"), where)
        kernels.append(Kernel(name, forward, reads=reads, writes=writes, creates=creates))
    returned = find(_numbers(graph, "Outputs"), "output")
    return [*kernels, Kernel("output", forward, reads=returned)]


def _numbers(table: Any, field: str) -> Any:
    return (
        [] if getattr(table, f"{field}IsNone")() else getattr(table, f"{field}AsNumpy")().tolist()
    )


def _is_planned(model: Any, tensor: Any) -> bool:
    buffer = model.Buffers(tensor.Buffer())
    has_data = buffer is not None and (buffer.DataLength() > 0 or buffer.Offset() > 1)
    return not has_data and not tensor.IsVariable()


def _bytes_of(tensor: Any, index: int) -> int:
    import tflite

    kinds = {number: kind for kind, number in vars(tflite.TensorType).items() if kind in _BITS}
    kind = kinds.get(tensor.Type())
    if kind is None:
        raise InstanceError(
            f"tensor {index}: elements of a fixed size are needed, found type {tensor.Type()}"
        )
    shape = _numbers(tensor, "Shape")
    if any(length < 0 for length in shape):
        raise InstanceError(
            f"tensor {index}: a shape without open lengths is needed, found {shape}"
        )
    count: int = prod(shape)
    return -(-count * _BITS[kind] // 8)


def _name_of(tensor: Any, index: int) -> str:
    return one_line((tensor.Name() or b"").decode("utf-8", "replace")) or f"tensor {index}"


def _offsets(model: Any) -> list[int] | None:
    for index in range(model.MetadataLength()):
        entry = model.Metadata(index)
        if entry.Name() == METADATA_NAME:
            content = bytes(model.Buffers(entry.Buffer()).DataAsNumpy())
            words = struct.unpack(f"<{len(content) // 4}i", content[: len(content) // 4 * 4])
            if len(words) < 3 or words[2] != len(words) - 3:
                raise InstanceError(
                    f"metadata {METADATA_NAME.decode()}: a version, a subgraph, a count and as "
                    f"many offsets are needed, found {shown(list(words))}"
                )
            return list(words[3:])
    return None
