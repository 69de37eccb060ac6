"""Read a graph that ``make_fx`` recorded: which storages each operation reads, writes, begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.node import map_arg
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from instances.extract.kernels.call_effort import effort_of_call, written_arguments
from instances.extract.kernels.storages import StepPhase, StorageTable, TracedOp
from instances.extract.record.gpu.gpu_kernels import FLOAT32_RESULTS

# Identifies a storage as long as something keeps it alive, which here the graph does.
storage_key: Callable[[torch.UntypedStorage], Any] = StorageWeakRef


class Storages(StorageTable):
    """Numbers storages in the order in which they are first seen."""

    def __init__(self) -> None:
        super().__init__((), ())
        self.number: dict[Any, int] = {}

    def of(self, values: Any, name: str = "") -> tuple[int, ...]:
        """Return the storage of every tensor in nested values.

        New ones are called by the name, and numbered where there are several.
        """
        tensors = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]
        several = len(tensors) > 1
        return tuple(
            self._of(tensor.untyped_storage(), f"{name}.{index}" if several else name)
            for index, tensor in enumerate(tensors)
        )

    def _of(self, storage: torch.UntypedStorage, name: str) -> int:
        key = storage_key(storage)
        if key not in self.number:
            self.number[key] = self.add(storage.nbytes(), name)
        return self.number[key]


FLOAT32_BYTES = 4


@dataclass(frozen=True)
class TracedGraph:
    """A graph of operations, storage by storage."""

    # In the order in which they ran.
    ops: tuple[TracedOp, ...]
    storages: Storages
    # Storage of each argument of the traced function.
    given: tuple[int, ...]
    # Storages that the graph holds itself, such as tables a module keeps outside its buffers.
    constants: frozenset[int]
    # The results of the function: a node for each, or None.
    returned: tuple[Node | None, ...]

    def storage_of(self, node: Node) -> int:
        """Return the storage of a node's value."""
        return self.storages.of(node.meta["val"])[0]


def read_graph(graph: torch.fx.Graph, phase_starts: Mapping[StepPhase, Set[str]]) -> TracedGraph:
    """Read a recorded graph.

    Kernels whose results nobody uses are left out, as any compiler would: leftovers of building
    an attention mask. In-place operators count as used. The graph's function returns one flat
    sequence. `phase_starts` has, for each phase, the nodes that existed when it began.
    """
    graph.eliminate_dead_code()
    storages = Storages()
    given = [
        storages.of(node.meta["val"], node.name)[0]
        for node in graph.nodes
        if node.op == "placeholder"
    ]
    held = [
        storages.of(value_of(node), node.name)[0] for node in graph.nodes if node.op == "get_attr"
    ]
    ops = [
        _read_op(node, storages, phase_starts) for node in graph.nodes if node.op == "call_function"
    ]
    (returned,) = (node.args[0] for node in graph.nodes if node.op == "output")
    return TracedGraph(tuple(ops), storages, tuple(given), frozenset(held), tuple(returned))


def _read_op(
    node: Node, storages: Storages, phase_starts: Mapping[StepPhase, Set[str]]
) -> TracedOp:
    target: Any = node.target
    schema = getattr(target, "_schema", None)
    inputs = storages.of([value_of(argument) for argument in node.all_input_nodes])
    name = op_name(target)
    outputs = storages.of(node.meta["val"], node.name)
    for result in FLOAT32_RESULTS.get(name, ()):
        storages.size[outputs[result]] = FLOAT32_BYTES * node.meta["val"][result].numel()
    written = [] if schema is None else written_arguments(schema, node.args, node.kwargs)
    nodes = [leaf for leaf in pytree.tree_leaves(written) if isinstance(leaf, Node)]
    mutated = storages.of([value_of(leaf) for leaf in nodes])
    phase = StepPhase.FORWARD
    for later, earlier_nodes in phase_starts.items():
        if node.name not in earlier_nodes:
            phase = later
    args, kwargs = map_arg((node.args, node.kwargs), value_of)
    effort = effort_of_call(target, args, kwargs, node.meta["val"])
    return TracedOp(node.name, name, phase, inputs, mutated, outputs, effort)


def op_name(target: Any) -> str:
    """Return the name of an operator without namespace and overload."""
    schema = getattr(target, "_schema", None)
    return str(target.__name__ if schema is None else schema.name.split("::")[-1])


def value_of(node: Node) -> Any:
    """Return the fake value of a node."""
    if node.op == "get_attr":
        return getattr(node.graph.owning_module, str(node.target))
    return node.meta["val"]
