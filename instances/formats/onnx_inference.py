"""The type and the bytes of every tensor of an ONNX model, with sizes for open dimensions.

Note: why node by node
----------------------
Rationale. Exported models compute shapes with ordinary operators: ``Shape``, ``Gather``, ``Div``,
``Concat``, then ``Reshape``. Inference of a whole graph by the package `onnx` follows few of these
operators and finds no shape behind the first that it does not follow.

Approach. Nodes are inferred in the file's order, each as a model of its own. Its inputs have the
types found so far, and their numbers if these are known and few. If all numbers that an operator on
shapes reads are known, the reference implementation of the package computes its result. The type
that the file declares for a tensor is taken if inference finds none; if both exist, they must
agree.

A result is computed only if it has few elements, which are counted beforehand from the numbers that
the node reads. All numbers that are read and computed are charged to the allowance of the file. The
shape of an operator on known numbers is the computed one, even if the file declares another one. A
node with numbers in another file is never computed, because that would open the file.

Limits. Shapes that depend on the model's input data (``NonZero``) are not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from instances.formats.model_problem import ModelTensor
from planners.errors import InstanceError
from planners.files.dimensions import Dimensions, require_dimensions
from planners.files.file_limits import Allowance, ReadingWork, element_count
from planners.text.plain_text import shown

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto


# Elements of less than a byte are packed.
_BITS = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2}


@dataclass(frozen=True)
class TensorType:
    """The known facts of a tensor: its ONNX element type (0 if unknown), and its shape or None."""

    element: int = 0
    lengths: tuple[int | None, ...] | None = None

    @property
    def is_settled(self) -> bool:
        """True if the whole shape is known."""
        return self.lengths is not None and None not in self.lengths

    @property
    def shape(self) -> list[int]:
        """The lengths of a settled shape."""
        return [length or 0 for length in self.lengths or ()]

    @property
    def elements(self) -> int:
        """The number of elements of a tensor of a settled shape."""
        return element_count(self.shape, "tensor")


def type_of(name: str, kind: TypeProto) -> TensorType:
    """Return the type of a tensor without the names and notes that a file may give its axes."""
    found = kind.WhichOneof("value")
    if found not in (None, "tensor_type"):
        raise InstanceError(f"tensor {shown(name)}: a dense tensor is needed, found {found}")
    tensor = kind.tensor_type
    if not tensor.HasField("shape"):
        return TensorType(tensor.elem_type)
    lengths = [each.dim_value if _is_settled(each) else None for each in tensor.shape.dim]
    element_count([1 if length is None else length for length in lengths], f"tensor {shown(name)}")
    return TensorType(tensor.elem_type, tuple(lengths))


def weights_of(graph: GraphProto) -> dict[str, TensorProto]:
    """Return the initializers by name; a graph's input of the same name is one, too."""
    weights = {weight.name: weight for weight in graph.initializer}
    if len(weights) < len(graph.initializer):
        raise InstanceError("initializers of different names are needed, found one given twice")
    return weights


def set_dimensions(model: ModelProto, dimensions: Dimensions) -> None:
    """Give all open dimensions of a model's inputs their sizes.

    A dimension without a name is called by its input and axis, ``x.0``. Open dimensions of other
    tensors are left to shape inference.
    """
    graph = model.graph
    weights = weights_of(graph)
    inputs = [value for value in graph.input if value.name not in weights]
    where: dict[str, str] = {}
    for value in inputs:
        for axis, dimension in enumerate(_shape_of(value)):
            if not _is_settled(dimension):
                where.setdefault(_name_of(value, axis), f"{value.name}[{axis}]")
    require_dimensions(where, dimensions)
    for value in inputs:
        for axis, dimension in enumerate(_shape_of(value)):
            if not _is_settled(dimension):
                dimension.dim_value = dimensions[_name_of(value, axis)]
    for value in (*graph.value_info, *graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param in dimensions:
                dimension.dim_value = dimensions[dimension.dim_param]
            elif not _is_settled(dimension):
                dimension.Clear()


def model_tensor(name: str, kind: TensorType) -> ModelTensor:
    """Return a tensor of a settled type, which may be a weight with its numbers in another file."""
    from onnx import TensorProto, helper

    if not kind.is_settled:
        raise InstanceError(
            f"tensor {shown(name)}: a shape is needed, and shape inference finds none; it may "
            f"depend on data"
        )
    kinds: Mapping[int, str] = {number: kind for kind, number in TensorProto.DataType.items()}
    element = kinds.get(kind.element, "UNDEFINED")
    if element in ("UNDEFINED", "STRING"):
        raise InstanceError(
            f"tensor {shown(name)}: elements of a fixed size are needed, found {element}"
        )
    count = element_count(kind.shape, f"tensor {shown(name)}")
    if element in _BITS:
        return ModelTensor(name, -(-count * _BITS[element] // 8), 1)
    width = helper.tensor_dtype_to_np_dtype(kind.element).itemsize
    return ModelTensor(name, count * width, width)


def _shape_of(value: ValueInfoProto) -> Iterator[Any]:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise InstanceError(f"input {shown(value.name)}: a tensor is needed, found {kind}")
    if not value.type.tensor_type.HasField("shape"):
        raise InstanceError(f"input {shown(value.name)}: a tensor with a shape is needed")
    yield from value.type.tensor_type.shape.dim


def _is_settled(dimension: Any) -> bool:
    # Some exporters write -1 for an open dimension.
    return bool(dimension.HasField("dim_value") and dimension.dim_value >= 0)


def _name_of(value: ValueInfoProto, axis: int) -> str:
    name: str = value.type.tensor_type.shape.dim[axis].dim_param
    return name or f"{value.name}.{axis}"


# A tensor with more elements is neither a shape nor axes; its numbers are never read. A guess.
MOST_NUMBERS = 1024
# Elements of a computed result; so many take milliseconds.
MOST_COMPUTED = 1 << 20
# A number takes some 50 ns.
NUMBERS = Allowance("known numbers, each as often as it is read", free=1 << 25, for_bytes=1)
# Operators that read a tensor's shape and none of its numbers.
_SHAPE_READERS = {"Shape", "Size"}
_ON_SHAPES = _SHAPE_READERS | {
    "Add", "And", "Cast", "Ceil", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Expand",
    "Flatten", "Floor", "Gather", "Greater", "Identity", "Less", "Max", "Min", "Mod", "Mul", "Neg",
    "Not", "Or", "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Slice",
    "Split", "Sqrt", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where",
}  # fmt: skip
# The result of these may have as many elements as the product over all inputs. Other results have
# at most the sum over all inputs, except for `Range` and two operators whose input is a shape.
_MULTIPLY = {
    "Add", "And", "Div", "Equal", "Gather", "Greater", "Less", "Max", "Min", "Mod", "Mul", "Or",
    "Sub", "Where",
}  # fmt: skip


def infer_types(model: ModelProto) -> dict[str, TensorType]:
    """Return the type of each tensor of the main graph, as far as it is found."""
    inference = _Inference(model)
    for index, node in enumerate(model.graph.node):
        inference.follow(node, f"node {index} ({node.op_type} {shown(node.name)})")
    return inference.types


class _Inference:
    def __init__(self, model: ModelProto) -> None:
        graph = model.graph
        self.opsets = {opset.domain: opset for opset in model.opset_import}
        self.types: dict[str, TensorType] = {}
        self.declared: dict[str, TensorType] = {}
        self.numbers: dict[str, TensorProto] = {}
        self.work = ReadingWork(NUMBERS, model.ByteSize())
        for name, weight in weights_of(graph).items():
            self.types[name] = TensorType(weight.data_type, tuple(weight.dims))
            is_here = weight.data_location != weight.EXTERNAL
            count = element_count(weight.dims, f"initializer {shown(name)}")
            if is_here and count <= MOST_NUMBERS:
                self.numbers[name] = weight
        for value in (*graph.input, *graph.value_info, *graph.output):
            said = type_of(value.name, value.type)
            known = self.types.get(value.name) or self.declared.get(value.name)
            self.declared[value.name] = _agreed(value.name, said, known)
        for value in graph.input:
            self.types.setdefault(value.name, self.declared[value.name])

    def follow(self, node: NodeProto, where: str) -> None:
        """Find the types of a node's results, and the numbers if the node works on shapes."""
        for attribute in node.attribute:
            # Inference makes a list of `num_outputs` lengths.
            if attribute.name == "num_outputs" and attribute.i != len(node.output):
                raise InstanceError(
                    f"{where}: num_outputs {len(node.output)}, as many as the node has results, is "
                    f"needed, found {attribute.i}"
                )
        known = (self.numbers[name] for name in node.input if name in self.numbers)
        self.work.charge(sum(prod(each.dims) for each in known))
        step = self._alone(node)
        found = self._infer(step)
        is_known = self._is_known(node)
        computed = self._compute(step, node, found) if is_known else {}
        for name in filter(None, node.output):
            kind = found.get(name, TensorType())
            if name in computed and not kind.is_settled:
                kind = TensorType(kind.element or computed[name].data_type, computed[name].dims)
            agreed = _agreed(name, kind, self.declared.get(name))
            self.types[name] = kind if is_known else agreed
            # If inference and computation find different shapes, a number overflowed; the numbers
            # stay unknown.
            is_few = kind.is_settled and kind.elements <= MOST_NUMBERS
            if is_few and name in computed and kind.lengths == tuple(computed[name].dims):
                self.numbers[name] = computed[name]

    def _alone(self, node: NodeProto) -> ModelProto:
        """Return the model of one node, as far as its inputs are known."""
        from onnx import ValueInfoProto, helper

        read = dict.fromkeys(filter(None, node.input))
        graph = helper.make_graph(
            [node],
            "node",
            [
                helper.make_tensor_value_info(
                    name, self.types[name].element, self.types[name].lengths
                )
                for name in read
                if name in self.types and name not in self.numbers
            ],
            [ValueInfoProto(name=name) for name in node.output if name],
            [self.numbers[name] for name in read if name in self.numbers],
        )
        opsets = [self.opsets[node.domain]] if node.domain in self.opsets else []
        # Of this package's own version: below 4, initializers would have to be inputs as well.
        return helper.make_model(graph, opset_imports=opsets)

    def _infer(self, step: ModelProto) -> dict[str, TensorType]:
        from onnx.shape_inference import InferenceError, infer_shapes

        # A wrong node gets no shape; the code that needs the shape reports that.
        with suppress(InferenceError, ValueError, RuntimeError):
            step = infer_shapes(step, data_prop=True)
        return {value.name: type_of(value.name, value.type) for value in step.graph.output}

    def _is_known(self, node: NodeProto) -> bool:
        """Return True if an operator on shapes has all numbers that it reads."""
        if node.op_type not in _ON_SHAPES or node.domain or any(map(_is_elsewhere, node.attribute)):
            return False
        read = filter(None, node.input)
        if node.op_type in _SHAPE_READERS:
            return all(name in self.types and self.types[name].is_settled for name in read)
        return all(name in self.numbers for name in read)

    def _compute(
        self, step: ModelProto, node: NodeProto, found: dict[str, TensorType]
    ) -> dict[str, TensorProto]:
        """Return the numbers of a node's results; none if they are many, or the node is wrong."""
        from onnx import numpy_helper
        from onnx.reference import ReferenceEvaluator

        if any(each.is_settled and each.elements > MOST_NUMBERS for each in found.values()):
            return {}
        try:
            with np.errstate(divide="raise", over="raise", invalid="raise"):
                most = self._most_elements(node)
                if most > MOST_COMPUTED:
                    return {}
                self.work.charge(int(most))
                # A broadcast zero has the shape of the input and takes no memory.
                given = {
                    value.name: np.broadcast_to(
                        np.zeros((), np.int64), self.types[value.name].shape
                    )
                    for value in step.graph.input
                }
                results: Any = ReferenceEvaluator(step).run(None, given)
                return {
                    name: numpy_helper.from_array(np.asarray(result), name)
                    for name, result in zip(filter(None, node.output), results, strict=True)
                }
        except InstanceError:
            raise
        except Exception:  # whatever a wrong node makes NumPy raise: its numbers stay unknown
            return {}

    def _most_elements(self, node: NodeProto) -> float:
        """Return an upper bound on the elements of a node's results, from its numbers alone."""
        from onnx import numpy_helper

        if node.op_type in _SHAPE_READERS:
            return 0
        given: list[Any] = [
            numpy_helper.to_array(self.numbers[name]) for name in filter(None, node.input)
        ]
        if node.op_type == "Range":
            start, limit, delta = (each.item() for each in given)
            return abs(float(limit) - float(start)) / abs(float(delta))
        sizes = [each.size for each in given]
        if node.op_type in ("ConstantOfShape", "Expand"):
            # Python's integers do not overflow.
            sizes[-1:] = map(abs, given[-1].ravel().tolist())
        elif node.op_type not in _MULTIPLY:
            return float(sum(sizes))
        return float(prod(size or 1 for size in sizes))


def _is_elsewhere(attribute: Any) -> bool:
    """Return True if numbers of an attribute are in another file."""
    sparse = attribute.sparse_tensor
    tensors = (attribute.t, *attribute.tensors, sparse.values, sparse.indices)
    return any(tensor.data_location == tensor.EXTERNAL for tensor in tensors)


def _agreed(name: str, found: TensorType, said: TensorType | None) -> TensorType:
    """Return the type of a tensor from two sources, or refuse sources that disagree."""
    if said is None:
        return found
    a, b = found.lengths, said.lengths
    lengths = b if a is None else a
    if a is not None and b is not None:
        pairs = list(zip_longest(a, b, fillvalue=-1))
        if any(None not in (x, y) and x != y for x, y in pairs) or len(a) != len(b):
            raise InstanceError(
                f"tensor {shown(name)}: the shape in the file, {shown(list(b))}, is needed, "
                f"found the shape {shown(list(a))}"
            )
        lengths = tuple(y if x is None else x for x, y in pairs)
    return TensorType(found.element or said.element, lengths)
