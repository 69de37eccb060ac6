"""The type of every tensor of an ONNX model, by the shape inference of the package `onnx`.

Note: why node by node
----------------------
Rationale. Exported models compute shapes as they compute anything: ``Shape``, ``Gather``, ``Div``,
``Concat``, and then ``Reshape``. Inference over the whole graph follows few of these operators, and
gives up on every tensor behind the first that it does not follow.

Approach. The nodes are inferred in the file's order, each as a model of its own whose inputs have
the types found so far, and their numbers where they are known and few. Where all numbers that an
operator on shapes reads are known, the reference implementation of the package computes its result.
What a file itself says of a tensor is taken where inference finds nothing; where both say
something, they must agree.

A result is computed only if its elements, counted before from the numbers that are read, are few;
and what all nodes read and compute is held against what the file may ask for.
Of an operator on known numbers the file's own word is never taken: its shape is what is computed.
No node whose numbers are kept in another file is computed, for that would open the file.

Limits. A shape that depends on what the model is given (``NonZero``) is not found.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import zip_longest
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from instances.formats.onnx_sizes import TensorType, type_of, weights_of
from planners.errors import InstanceError
from planners.files.file_limits import Allowance, Work
from planners.text.plain_text import shown

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

# Shapes, axes and the like have no more numbers than this; larger ones are never looked at.
MOST_NUMBERS = 1024
# What is computed has at most so many elements, which is a matter of milliseconds.
MOST_COMPUTED = 1 << 20
# Each takes some 50 ns.
NUMBERS = Allowance("known numbers, each as often as it is read", free=1 << 25, for_bytes=1)
# They read a tensor's shape and nothing of it.
_SHAPE_READERS = {"Shape", "Size"}
_ON_SHAPES = _SHAPE_READERS | {
    "Add", "And", "Cast", "Ceil", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Expand",
    "Flatten", "Floor", "Gather", "Greater", "Identity", "Less", "Max", "Min", "Mod", "Mul", "Neg",
    "Not", "Or", "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Slice",
    "Split", "Sqrt", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where",
}  # fmt: skip
# Their results may have as many elements as their inputs multiplied; others have no more than all
# inputs together, except for two that read a shape, and `Range`.
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
        self.ir_version = model.ir_version
        self.opsets = {opset.domain: opset for opset in model.opset_import}
        self.types: dict[str, TensorType] = {}
        self.declared: dict[str, TensorType] = {}
        self.numbers: dict[str, TensorProto] = {}
        self.work = Work(NUMBERS, model.ByteSize())
        for name, weight in weights_of(graph).items():
            self.types[name] = TensorType(weight.data_type, tuple(weight.dims))
            is_here = weight.data_location != weight.EXTERNAL
            if is_here and prod(weight.dims) <= MOST_NUMBERS:
                self.numbers[name] = weight
        for value in (*graph.input, *graph.value_info, *graph.output):
            said = type_of(value.name, value.type)
            known = self.types.get(value.name) or self.declared.get(value.name)
            self.declared[value.name] = _agreed(value.name, said, known)
        for value in graph.input:
            self.types.setdefault(value.name, self.declared[value.name])

    def follow(self, node: NodeProto, where: str) -> None:
        """Find the types of a node's results, and their numbers where it works on shapes."""
        for attribute in node.attribute:
            # Inference makes a list of as many lengths.
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
            # Where both find a shape and differ, a number overflowed: the numbers stay unknown.
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
        return helper.make_model(graph, opset_imports=opsets, ir_version=self.ir_version)

    def _infer(self, step: ModelProto) -> dict[str, TensorType]:
        from onnx.shape_inference import InferenceError, infer_shapes

        # A wrong node has no shape, which is said where one is needed.
        with suppress(InferenceError, ValueError, RuntimeError):
            step = infer_shapes(step, data_prop=True)
        return {value.name: type_of(value.name, value.type) for value in step.graph.output}

    def _is_known(self, node: NodeProto) -> bool:
        """Whether an operator on shapes has all that it needs for its numbers."""
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
                # One number, as often as the shape has it: takes no memory.
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
        """Return how many elements the results of a node have at most, from its numbers alone."""
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
            # As numbers of Python, which do not overflow.
            sizes[-1:] = map(abs, given[-1].ravel().tolist())
        elif node.op_type not in _MULTIPLY:
            return float(sum(sizes))
        return float(prod(size or 1 for size in sizes))


def _is_elsewhere(attribute: Any) -> bool:
    """Whether an attribute has numbers that are kept in another file."""
    sparse = attribute.sparse_tensor
    tensors = (attribute.t, *attribute.tensors, sparse.values, sparse.indices)
    return any(tensor.data_location == tensor.EXTERNAL for tensor in tensors)


def _agreed(name: str, found: TensorType, said: TensorType | None) -> TensorType:
    """Return what is known of a tensor from two sides, or refuse two that contradict each other."""
    if said is None:
        return found
    a, b = found.lengths, said.lengths
    lengths = b if a is None else a
    if a is not None and b is not None:
        pairs = list(zip_longest(a, b, fillvalue=-1))
        if any(None not in (x, y) and x != y for x, y in pairs) or len(a) != len(b):
            raise InstanceError(
                f"tensor {shown(name)}: the shape that the file says is needed, {shown(list(b))}, "
                f"found that it is {shown(list(a))}"
            )
        lengths = tuple(y if x is None else x for x, y in pairs)
    return TensorType(found.element or said.element, lengths)
