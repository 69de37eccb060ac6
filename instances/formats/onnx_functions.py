"""What a model's own functions amount to, counted before they are put in the place of their calls.

Note: counted as a product over the calls
-----------------------------------------
Rationale. Thirty functions that each call the next one twice are 2,000 bytes and 2^30 nodes.

Approach. The nodes and bytes of a function are summed over its body once, with those of the
functions that it calls, and held against what the file may ask for. A chain of calls is of bounded
length, which also finds functions that call themselves. An attribute or a name of a call may be
copied to each node of the body, so that each of those counts the bytes of the call, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from planners.errors import InstanceError
from planners.files.file_limits import Allowance
from planners.text.plain_text import shown

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto

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
        """Return nodes and bytes of a body, and how many calls lie in each other below it."""
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
