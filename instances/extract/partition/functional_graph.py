"""A recorded graph in which nothing is changed in place, as PyTorch's partitioner needs it.

Note: functional operators under the same names
-----------------------------------------------
Rationale. PyTorch's own functionalisation records a graph anew, and its nodes have other names.
The answers of the partitioner are about tensors of an instance, which are called as the nodes.

Approach. An in-place operator becomes its functional twin in its place, and later readers of what
it changed read its result. If it changed a view, the result is put back into what the view shows,
view by view: by a scatter for a slice or a selection.

Limits. A tensor that is read later through another view than the changed one is refused, and so is
a change through a view that has no scatter here. No registered model does either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from instances.extract.kernels.call_effort import written_arguments
from instances.extract.record.graph.traced_graph import storage_key
from planners.errors import InstanceError

aten = torch.ops.aten


def make_functional(graph: Graph) -> set[Node]:
    """Replace the in-place operators of a graph; nodes keep their names.

    Every node but the output has its value in ``meta["val"]``. Returns the nodes that changed an
    argument or a constant of the graph. ``InstanceError`` if an operator cannot be replaced.
    """
    return _Functional(graph).replace_all()


class _Functional:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        # The nodes that changed in place, or put such a change back; of those that are a part of
        # another one, that one, and the view that says which part.
        self.part_of: dict[Node, tuple[Node, Node] | None] = {}
        self.order: dict[Node, int] = {node: place for place, node in enumerate(graph.nodes)}
        self.sharing: dict[Any, list[Node]] = {}
        for node in graph.nodes:
            for leaf in pytree.tree_leaves(node.meta.get("val")):
                if isinstance(leaf, Tensor):
                    self.sharing.setdefault(storage_key(leaf.untyped_storage()), []).append(node)

    def replace_all(self) -> set[Node]:
        mutable = [
            node
            for node in self.graph.nodes
            if node.op == "call_function" and getattr(node.target, "_schema", None)
            # A scatter for an earlier node is functional.
            and node.target._schema.is_mutable
        ]  # fmt: skip
        return {node for node in mutable if self._replace(node).op != "call_function"}

    def _replace(self, node: Node) -> Node:
        """Replace one operator, and return the tensor that it changed or changed a view of."""
        target: Any = node.target
        written = pytree.tree_leaves(written_arguments(target._schema, node.args, node.kwargs))
        if len(written) != 1:
            raise InstanceError(
                f"operator {node.name}: one tensor that is changed in place is needed, found "
                f"{len(written)}"
            )
        node.target = functional_twin(target)
        changed: Node = written[0]
        value = node
        self._read_later(changed, value, node)
        while (scattered := self._put_back(changed, value)) is not None:
            changed, value = scattered
            self._read_later(changed, value, node)
        for other in self.sharing[storage_key(written[0].meta["val"].untyped_storage())]:
            if self.order[other] < self.order[node] and self._later_readers(other, node):
                raise InstanceError(
                    f"operator {node.name}: {other.name} shares the storage that it changes, and "
                    f"is read later; PyTorch's partitioner needs a graph without that"
                )
        return changed

    def _put_back(self, view: Node, value: Node) -> tuple[Node, Node] | None:
        """Return what a view shows a part of, and its new value; None for no view."""
        part = self.part_of[view] if view in self.part_of else _part_shown(view)
        self.part_of[value] = None
        if part is None:
            return None
        base, shown_by = part
        inverse = INVERSES.get(shown_by.target)
        if inverse is None:
            raise InstanceError(
                f"operator {value.name}: it changes the view {view.name} in place, and only views "
                f"by view, slice and select are covered, found {shown_by.target}"
            )
        with self.graph.inserting_after(value):
            scattered = inverse(self.graph, base, value, shown_by.args[1:])
        scattered.meta["val"] = base.meta["val"]
        self.part_of[value] = scattered, shown_by
        self.order[scattered] = self.order[value]
        self.sharing[storage_key(base.meta["val"].untyped_storage())].append(scattered)
        return base, scattered

    def _read_later(self, changed: Node, value: Node, node: Node) -> None:
        later = self._later_readers(changed, node)
        changed.replace_all_uses_with(value, delete_user_cb=later.__contains__)

    def _later_readers(self, read: Node, node: Node) -> set[Node]:
        return {user for user in read.users if self.order[user] > self.order[node]}


def _part_shown(view: Node) -> tuple[Node, Node] | None:
    """Return what a view shows a part of, and the view; None for no view."""
    base = view.args[0] if view.args else None
    if not isinstance(base, Node):
        return None
    values = view.meta.get("val"), base.meta.get("val")
    keys = [storage_key(v.untyped_storage()) for v in values if isinstance(v, Tensor)]
    return (base, view) if len(keys) == len(values) and keys[0] == keys[1] else None


def functional_twin(operator: Any) -> Any:
    """Return the operator that returns what another one writes in place, of the same arguments."""
    schema = operator._schema
    namespace, name = schema.name.split("::")
    packet: Any = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    wanted = _arguments(schema)
    for overload in packet.overloads() if packet is not None else ():
        twin = getattr(packet, overload)
        if not twin._schema.is_mutable and _arguments(twin._schema) == wanted:
            return twin
    raise InstanceError(f"operator {schema.name}: no functional operator has the same arguments")


def _arguments(schema: Any) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in schema.arguments]


def _view_back(graph: Graph, base: Node, value: Node, _: tuple[Any, ...]) -> Node:
    return graph.call_function(aten.view.default, (value, list(base.meta["val"].shape)))


def _slice_back(graph: Graph, base: Node, value: Node, where: tuple[Any, ...]) -> Node:
    return graph.call_function(aten.slice_scatter.default, (base, value, *where))


def _select_back(graph: Graph, base: Node, value: Node, where: tuple[Any, ...]) -> Node:
    return graph.call_function(aten.select_scatter.default, (base, value, *where))


INVERSES: dict[Any, Callable[[Graph, Node, Node, tuple[Any, ...]], Node]] = {
    aten.view.default: _view_back,
    aten.slice.Tensor: _slice_back,
    aten.select.int: _select_back,
}
