"""The computation graph of a problem: nodes on streams, and each tensor's users."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planners.errors import InstanceError
from planners.model.columns import (
    IntColumn,
    frozen_column,
    frozen_lists,
    frozen_names,
    frozen_rows,
    read_only,
    require_each,
)
from planners.model.work import Work
from planners.text.byte_units import counted
from planners.text.plain_text import shown

# Limits the streams and the nodes of a graph, before memory for them is taken. Guesses.
MAX_STREAMS = 1 << 20
MAX_NODES = 20_000_000
# Nodes of a cycle that a message shows.
MOST_SHOWN = 16


@dataclass(frozen=True, eq=False, init=False)
class Graph:
    """Nodes in global topological order, each on a stream, with the tensors between them.

    Nodes of one stream run in index order; between streams only arcs order them. An arc leads from
    a tensor's producer to each of its consumers, and from ``u`` to ``v`` for a control arc.

    Parameters
    ----------
    op
        Name of the operation, one a node.
    stream
        int64, one a node, in ``[0, 2**20)``.
    producer
        int64, one a tensor: the node that writes it.
    consumers
        The nodes that read each tensor, one sequence a tensor. A consumer that is the producer
        itself makes the tensor a workspace of that node. A tensor with an empty sequence is never
        read and lives while its producer runs.
    control
        Pairs ``(u, v)`` of nodes with ``u < v``: ``v`` waits for ``u``.
    work
        What each node computes and moves, and whether it may run again; None if not known. It
        changes no plan.

    Raises
    ------
    InstanceError
        A node does not exist, an arc leads backwards in the order, or the arcs form a cycle.

    References
    ----------
    Lamprou et al. 2023, sections 2 and 3.
    """

    op: tuple[str, ...]
    stream: IntColumn
    producer: IntColumn
    consumer_offsets: IntColumn
    consumer_nodes: IntColumn
    control: IntColumn
    work: Work | None

    def __init__(
        self,
        *,
        op: Sequence[str],
        stream: Iterable[int] | IntColumn,
        producer: Iterable[int] | IntColumn,
        consumers: Sequence[Sequence[int] | IntColumn],
        control: Iterable[tuple[int, int]] | IntColumn = (),
        work: Work | None = None,
    ) -> None:
        offsets, nodes = frozen_lists("graph.consumers", consumers, entry="tensor")
        object.__setattr__(self, "op", frozen_names("graph.op", op, entry="node"))
        object.__setattr__(self, "stream", frozen_column("graph.stream", stream, entry="node"))
        object.__setattr__(self, "producer", frozen_column("graph.producer", producer))
        object.__setattr__(self, "consumer_offsets", offsets)
        object.__setattr__(self, "consumer_nodes", nodes)
        object.__setattr__(self, "control", frozen_rows("graph.control", control, width=2))
        if not isinstance(work, Work | None):
            raise InstanceError(f"field graph.work: a Work is needed, found {shown(work)}")
        object.__setattr__(self, "work", work)
        self._validate()

    def __repr__(self) -> str:
        tensors = counted(self.tensor_count, "tensor")
        streams = counted(self.stream_count, "stream")
        return f"<Graph: {counted(self.node_count, 'node')} on {streams}, {tensors}>"

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return len(self.op)

    @property
    def tensor_count(self) -> int:
        """Number of tensors."""
        return len(self.producer)

    @cached_property
    def stream_count(self) -> int:
        """Number of streams that hold at least one node."""
        return len(np.unique(self.stream))

    @cached_property
    def consumer_tensors(self) -> IntColumn:
        """Tensor of each entry of ``consumer_nodes``, int64."""
        return read_only(np.repeat(np.arange(self.tensor_count), np.diff(self.consumer_offsets)))

    def consumers_of(self, tensor: int) -> IntColumn:
        """Return the nodes that read a tensor, in the order in which they were given."""
        begin, end = self.consumer_offsets[tensor], self.consumer_offsets[tensor + 1]
        return self.consumer_nodes[begin:end]

    def lifetimes(self) -> tuple[IntColumn, IntColumn]:
        """Return half-open lifetimes, from the producer to one past the last reader.

        The paper's closed interval ``[ts(v), max ts(u)]`` is ``[start, end - 1]``.
        """
        end = self.producer + 1
        np.maximum.at(end, self.consumer_tensors, self.consumer_nodes + 1)
        return self.producer.copy(), end

    def with_control(self, arcs: Sequence[tuple[int, int]] | IntColumn) -> Graph:
        """Return the same graph with these control arcs in place of its own."""
        graph = copy.copy(self)
        object.__setattr__(graph, "control", frozen_rows("graph.control", arcs, width=2))
        graph._validate()
        return graph

    def _validate(self) -> None:
        nodes = self.node_count
        if nodes > MAX_NODES:
            raise InstanceError(f"field graph.op: at most {MAX_NODES} nodes, found {nodes}")
        if len(self.stream) != nodes:
            raise InstanceError(
                f"field graph.stream: one entry a node is needed, found {len(self.stream)} "
                f"for {nodes} nodes of graph.op"
            )
        known = (self.stream >= 0) & (self.stream < MAX_STREAMS)
        rule = f"streams are numbered 0 to {MAX_STREAMS - 1}"
        require_each("graph.stream", "node", known, rule, self.stream)
        if len(self.consumer_offsets) != self.tensor_count + 1:
            raise InstanceError(
                f"field graph.consumers: one list a tensor is needed, found "
                f"{len(self.consumer_offsets) - 1} for {self.tensor_count} producers"
            )
        self._require_nodes("producer", self.producer, np.arange(self.tensor_count))
        self._require_nodes("consumers", self.consumer_nodes, self.consumer_tensors)
        known = np.all((self.control >= 0) & (self.control < nodes), axis=1)
        rule = f"nodes are numbered 0 to {nodes - 1}"
        require_each("graph.control", "arc", known, rule, self.control, " -> ".join)
        self._require_topological_order()
        if self.work is not None:
            self.work.require_for(nodes, self.tensor_count)

    def _require_nodes(self, field: str, nodes: IntColumn, tensors: IntColumn) -> None:
        known = (nodes >= 0) & (nodes < self.node_count)
        rule = f"nodes are numbered 0 to {self.node_count - 1}"
        require_each(f"graph.{field}", "tensor", known, rule, nodes, index=tensors)

    def _require_topological_order(self) -> None:
        sources = np.concatenate([self.producer[self.consumer_tensors], self.control[:, 0]])
        targets = np.concatenate([self.consumer_nodes, self.control[:, 1]])
        tensor_arcs = len(self.consumer_nodes)
        backward = sources > targets
        backward[tensor_arcs:] |= sources[tensor_arcs:] == targets[tensor_arcs:]
        wrong = np.flatnonzero(backward)
        if not len(wrong):
            return
        arc = int(wrong[0])
        if arc < tensor_arcs:
            where = f"field graph.consumers, tensor {self.consumer_tensors[arc]}"
        else:
            where = f"field graph.control, arc {arc - tensor_arcs}"
        if sources[arc] == targets[arc]:
            raise InstanceError(
                f"{where}: the two nodes must differ, found {sources[arc]} -> {targets[arc]}"
            )
        cycle = find_cycle(self.node_count, sources, targets)
        if cycle:
            path = " -> ".join(map(str, [*cycle[:MOST_SHOWN], cycle[0]]))
            left_out = f", {len(cycle) - MOST_SHOWN} left out" if len(cycle) > MOST_SHOWN else ""
            raise InstanceError(f"{where}: the arcs must not form a cycle, found {path}{left_out}")
        raise InstanceError(
            f"{where}: nodes must be listed in global topological order, found the arc "
            f"{sources[arc]} -> {targets[arc]}; list node {sources[arc]} before {targets[arc]}"
        )


def find_cycle(nodes: int, sources: IntColumn, targets: IntColumn) -> list[int]:
    """Return the nodes of one directed cycle, or an empty list."""
    successors: list[list[int]] = [[] for _ in range(nodes)]
    indegree = [0] * nodes
    for u, v in zip(sources.tolist(), targets.tolist(), strict=True):
        if u != v:
            successors[u].append(v)
            indegree[v] += 1
    ready = [node for node in range(nodes) if indegree[node] == 0]
    for node in ready:
        for successor in successors[node]:
            indegree[successor] -= 1
            if indegree[successor] == 0:
                ready.append(successor)
    if len(ready) == nodes:
        return []
    # Every node left has a predecessor that is left, so a backward walk must repeat a node.
    left = {node for node in range(nodes) if indegree[node] > 0}
    predecessor = {v: u for u in left for v in successors[u] if v in left}
    walk: list[int] = []
    seen: dict[int, int] = {}
    node = min(left)
    while node not in seen:
        seen[node] = len(walk)
        walk.append(node)
        node = predecessor[node]
    return walk[seen[node] :][::-1]
