"""ONNX models: every tensor that running the nodes in the file's order needs beside the weights.

Note: tensors that share bytes
-----------------------
Rationale. Each runtime decides which tensors share a storage, but some operators only rename:
their result has the bytes of their input.

Approach. ``Reshape``, ``Flatten``, ``Squeeze``, ``Unsqueeze`` and ``Identity`` rename. Their result
is the storage of their input, which lives as long as any of its names. They stay nodes, because
they read shapes. Every other result is a storage of its own, even if a runtime could compute it in
place. Weights are initializers, the results of ``Constant``, and renamed weights.

Limits. A node with a graph of its own (``If``, ``Loop``, ``Scan``) is refused, because the bytes of
that graph depend on data. Sequences, maps and strings are refused: they are not tensors.

Note: functions are counted before they are inlined
---------------------------------------------------
Rationale. Thirty functions that each call the next one twice are 2,000 bytes and 2^30 nodes.

Approach. Nodes and bytes of a function are summed over its body once, with those of the functions
that it calls, and held against the allowance of the file. The depth of calls is bounded, which
also finds functions that call themselves. Inlining may copy an attribute or a name of a call to
each node of the body, so each of these nodes counts the bytes of the call as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from instances.formats.model_problem import (
    ModelTensor,
    Operators,
    model_problem,
    warn_of_left_out,
)
from instances.formats.onnx_inference import (
    TensorType,
    infer_types,
    model_tensor,
    set_dimensions,
    weights_of,
)
from planners import Problem
from planners.errors import InstanceError, MissingDependencyError, errors_at
from planners.files.bounded_file import read_bounded
from planners.files.dimensions import Dimensions
from planners.files.file_limits import MAX_MODEL_BYTES, Allowance
from planners.files.formats import NO_DIMENSIONS, Format
from planners.text.plain_text import shown

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto


RENAMES = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}


def read_onnx_model(path: Path, dimensions: Dimensions = NO_DIMENSIONS) -> Problem:
    """Read an ONNX model as the problem of its intermediate tensors.

    Nodes run in the file's order on one stream, between a node that makes the graph's inputs and
    one that reads its outputs. Sizes are exact; a tensor is aligned to its elements. `dimensions`
    has the sizes of open dimensions by name; ``x.0`` is axis 0 of input ``x`` if it has no name.
    Weights in other files are not opened; ``persistent_bytes`` of the origin counts all weights.

    Source: https://onnx.ai/onnx/repo-docs/IR.html
    """
    with errors_at(path):
        model = _load(path)
        set_dimensions(model, dimensions)
        types = infer_types(model)
        operators = _operators(path, model.graph, types)

        def tensor_of(name: str) -> ModelTensor:
            return model_tensor(name, types[name])

        persistent = sum(tensor_of(name).size for name in operators.kept if name in types)
        return model_problem(path, ONNX_MODEL.name, operators, tensor_of, persistent, dimensions)


ONNX_MODEL = Format(
    "onnx",
    (".onnx",),
    lambda path, _head: path.name.lower().endswith(".onnx"),
    read_onnx_model,
    read_sized=read_onnx_model,
)


def _load(path: Path) -> ModelProto:
    try:
        import onnx
        from google.protobuf.message import DecodeError
        from onnx.inliner import inline_local_functions
    except ImportError as error:
        raise MissingDependencyError(
            f"{path}: ONNX models need the package onnx ({error})", "onnx"
        ) from None
    data = read_bounded(path, MAX_MODEL_BYTES)
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError) as error:
        raise InstanceError(f"the file is no ONNX model: {error}") from None
    if not model.graph.output:
        raise InstanceError("a graph with outputs is needed, found none")
    nodes = (body.node for body in (model.graph, *model.functions))
    opsets = (body.opset_import for body in (model, *model.functions))
    for part in chain(model.functions, *nodes, *opsets):
        # The default operators have one of two names.
        if part.domain == "ai.onnx":
            part.ClearField("domain")
    require_few_nodes(model, len(data))
    del data
    return inline_local_functions(model) if model.functions else model


def _operators(path: Path, graph: GraphProto, types: Mapping[str, TensorType]) -> Operators:
    weights = dict.fromkeys(weights_of(graph))
    weights.update(dict.fromkeys(weight.values.name for weight in graph.sparse_initializer))
    operators = Operators(weights)
    given = [value.name for value in graph.input if value.name not in weights]
    returned = [value.name for value in graph.output]
    read = {*returned, *(name for node in graph.node for name in node.input)}
    operators.add("input", "input", makes=given)
    left_out: list[str] = []
    for index, node in enumerate(graph.node):
        where = f"node {index} ({node.op_type} {shown(node.name)})"
        results = list(filter(None, node.output))
        kind = "" if node.domain else node.op_type
        renames = kind in RENAMES and any(node.input[:1])
        made = [name for name in results if name in read or types[name].is_settled]
        left_out += set(results) - set(made)
        is_own = renames or kind == "Constant"
        operators.add(node.op_type, where, filter(None, node.input), () if is_own else made)
        if kind == "Constant":
            operators.keep(made, where)
        for name in made if renames else ():
            _require_same_bytes(name, operators.rename(name, node.input[0], where), types)
    operators.add("output", "output", returned)
    if left_out:
        why = "nobody reads it, and no shape is found"
        warn_of_left_out(path, f"each result of {shown(left_out)}", why)
    return operators


def _require_same_bytes(name: str, first: str, types: Mapping[str, TensorType]) -> None:
    """Refuse a shape that its storage cannot have; shape inference does not check this."""
    if first not in types or not (types[name].is_settled and types[first].is_settled):
        return
    needed, found = (model_tensor(each, types[each]).size for each in (first, name))
    if found != needed:
        raise InstanceError(
            f"tensor {shown(name)}: the {needed} bytes of {shown(first)} are needed, found a shape "
            f"of {found}; the model may have been exported for other dimensions"
        )


# A node of an exporter takes 60 bytes and more; to infer its shapes takes some 0.2 ms.
NODES = Allowance("nodes", free=1 << 14, for_bytes=64)
BODY_BYTES = Allowance("bytes of nodes", free=1 << 24, for_bytes=1, more=16)
MAX_CALLS_IN_CALLS = 64


def require_few_nodes(model: ModelProto, file_bytes: int) -> None:
    """Refuse a model whose nodes, with functions in the place of calls, are too many for it."""
    nodes, size, _ = _Bodies(model, file_bytes).of(model.graph.node, 0)
    NODES.require(nodes, file_bytes)
    BODY_BYTES.require(size, file_bytes)


class _Bodies:
    def __init__(self, model: ModelProto, file_bytes: int) -> None:
        self.functions = {(each.domain, each.name, each.overload): each for each in model.functions}
        if len(self.functions) < len(model.functions):
            raise InstanceError("functions of different names are needed, found one given twice")
        self.known: dict[tuple[str, str, str], tuple[int, int, int]] = {}
        self.file_bytes = file_bytes

    def of(self, body: Iterable[NodeProto], depth: int) -> tuple[int, int, int]:
        """Return the nodes, the bytes and the depth of calls of a body."""
        nodes = size = below = 0
        for index, node in enumerate(body):
            for attribute in node.attribute:
                if attribute.HasField("g") or attribute.graphs:
                    raise InstanceError(
                        f"node {index} ({node.op_type} {shown(node.name)}): nodes without a graph "
                        f"of their own are needed, found {shown(attribute.name)}; export the model "
                        f"without control flow"
                    )
            nodes, size = nodes + 1, size + node.ByteSize()
            key = (node.domain, node.op_type, node.overload)
            if (called := self.functions.get(key)) is not None:
                more, bytes_of_body, calls = self._function(key, called, depth + 1)
                nodes, below = nodes + more, max(below, calls + 1)
                size += bytes_of_body + more * (node.ByteSize() + len(node.op_type))
        return nodes, size, below

    def _function(
        self, key: tuple[str, str, str], function: FunctionProto, depth: int
    ) -> tuple[int, int, int]:
        found = self.known.get(key)
        if depth + (found[2] if found else 0) > MAX_CALLS_IN_CALLS:
            raise InstanceError(
                f"function {shown(function.name)}: calls at most {MAX_CALLS_IN_CALLS} deep are "
                f"needed, and no function that calls itself"
            )
        if found is None:
            found = self.known[key] = self.of(function.node, depth)
            NODES.require(found[0], self.file_bytes, f"function {shown(function.name)}: ")
        return found
