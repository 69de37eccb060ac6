"""The type of every tensor of an ONNX model, by the shape inference of the package `onnx`.

Note: why node by node
----------------------
Rationale. Exported models compute shapes as they compute anything: ``Shape``, ``Gather``, ``Div``,
``Concat``, and then ``Reshape``. Inference over the whole graph follows few of these operators, and
gives up on every tensor behind the first that it does not follow.

Approach. The nodes are inferred in the file's order, each as a model of its own whose inputs have
the types found so far, and their numbers where they are known and few. Where all numbers that an
operator on shapes reads are known, the reference implementation of the package computes its result.
What a file itself says of a tensor is taken where inference finds nothing.

Limits. A shape that depends on what the model is given (``NonZero``) is not found.
"""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from instances.formats.onnx_sizes import lengths_of, weights_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto, TypeProto

# Shapes, axes and the like have no more numbers than this; larger ones are never looked at.
MOST_NUMBERS = 1024
# They read a tensor's shape and nothing of it.
_SHAPE_READERS = {"Shape", "Size"}
_ON_SHAPES = _SHAPE_READERS | {
    "Add", "And", "Cast", "Ceil", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Expand",
    "Flatten", "Floor", "Gather", "Greater", "Identity", "Less", "Max", "Min", "Mod", "Mul", "Neg",
    "Not", "Or", "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Slice",
    "Split", "Sqrt", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where",
}  # fmt: skip


def infer_types(model: ModelProto) -> dict[str, TypeProto]:
    """Return the type of each tensor of the main graph, as far as it is found."""
    inference = _Inference(model)
    for node in model.graph.node:
        inference.follow(node)
    return inference.types


class _Inference:
    def __init__(self, model: ModelProto) -> None:
        from onnx import helper

        graph = model.graph
        self.model = model
        self.declared = {value.name: value.type for value in (*graph.value_info, *graph.output)}
        self.types = {value.name: value.type for value in graph.input}
        self.numbers: dict[str, TensorProto] = {}
        for name, weight in weights_of(graph).items():
            self.types[name] = helper.make_tensor_type_proto(weight.data_type, weight.dims)
            is_here = weight.data_location != weight.EXTERNAL
            if is_here and prod(weight.dims) <= MOST_NUMBERS:
                self.numbers[name] = weight

    def follow(self, node: NodeProto) -> None:
        """Find the types of a node's results, and their numbers where it works on shapes."""
        step = self._alone(node)
        for name, found in self._infer(step).items():
            declared = self.declared.get(name, found)
            is_needed = lengths_of(found) is None and lengths_of(declared) is not None
            self.types[name] = declared if is_needed else found
        if node.op_type in _ON_SHAPES and not node.domain and self._is_known(node):
            self._compute(step, node)

    def _alone(self, node: NodeProto) -> ModelProto:
        """Return the model of one node, as far as its inputs are known."""
        from onnx import ValueInfoProto, helper

        read = dict.fromkeys(filter(None, node.input))
        graph = helper.make_graph(
            [node],
            "node",
            [
                helper.make_value_info(name, self.types[name])
                for name in read
                if name in self.types and name not in self.numbers
            ],
            [ValueInfoProto(name=name) for name in node.output if name],
            [self.numbers[name] for name in read if name in self.numbers],
        )
        return helper.make_model(
            graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version
        )

    def _infer(self, step: ModelProto) -> dict[str, TypeProto]:
        from onnx.shape_inference import InferenceError, infer_shapes

        # A wrong node has no shape, which is said where one is needed.
        with suppress(InferenceError, ValueError, RuntimeError):
            step = infer_shapes(step, data_prop=True)
        return {value.name: value.type for value in step.graph.output}

    def _is_known(self, node: NodeProto) -> bool:
        shapes = [lengths_of(self.types[name]) for name in node.output if name]
        if any(shape is None or prod(shape) > MOST_NUMBERS for shape in shapes):
            return False
        read = [name for name in node.input if name]
        if node.op_type in _SHAPE_READERS:
            return all(lengths_of(self.types[name]) is not None for name in read)
        return all(name in self.numbers for name in read)

    def _compute(self, step: ModelProto, node: NodeProto) -> None:
        from onnx import numpy_helper
        from onnx.reference import ReferenceEvaluator

        results: Any
        try:
            # One number, as often as the shape has it: takes no memory.
            given = {
                value.name: np.broadcast_to(np.zeros((), np.int64), lengths_of(value.type) or ())
                for value in step.graph.input
            }
            results = ReferenceEvaluator(step).run(None, given)
        except Exception:  # whatever a wrong node makes NumPy raise: its numbers stay unknown
            return
        for name, result in zip(filter(None, node.output), results, strict=True):
            self.numbers[name] = numpy_helper.from_array(np.asarray(result), name)
