"""The streams of a problem with some waits more: their paths, and the heaviest antichain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planners import _core
from planners.errors import InstanceError
from planners.model.bounds import Bound, bounds_of
from planners.model.columns import BoolColumn, IntColumn
from planners.model.graph import Graph
from planners.model.problem import Problem
from planners.safety.algorithms import core_graph

# The earlier and the later node, of two streams.
Wait = tuple[int, int]
Waits = frozenset[Wait]


@dataclass(frozen=True)
class Reach:
    """Which node leads to which: a clock a node, its own position included."""

    stream: IntColumn
    position: IntColumn
    clock: IntColumn

    def leads(self, u: int | IntColumn, v: int | IntColumn) -> BoolColumn:
        """Return whether there is a path from each u to each v, or they are one node."""
        known: BoolColumn = self.position[u] <= self.clock[v, self.stream[u]]
        return known


class WaitingStreams:
    """A problem whose nodes may wait for nodes of other streams, beyond what its graph says."""

    def __init__(self, problem: Problem) -> None:
        if problem.graph is None or problem.lifetimes_decide:
            raise InstanceError(
                f"{problem.name}: a graph with several streams is needed, because a wait orders "
                f"nodes of two streams; found {problem.safety.value} and "
                f"{max(problem.stream_count, 1)} stream"
            )
        self.problem = problem.with_capacity(None)
        self.graph: Graph = problem.graph
        self.stream: IntColumn = np.unique(self.graph.stream, return_inverse=True)[1]

    @cached_property
    def in_one_stream(self) -> Problem:
        """The problem with all waits there are: the lifetimes of the global order."""
        return without_streams(self.problem)

    @cached_property
    def least(self) -> Bound:
        """The bound that no number of waits lowers."""
        return max(bounds_of(self.in_one_stream), key=lambda bound: bound.bytes)

    @cached_property
    def heaviest(self) -> int:
        """The bytes of the heaviest antichain without waits."""
        return self.antichain(frozenset())[0]

    def with_waits(self, waits: Waits) -> Problem:
        """Return the problem with control arcs for some waits."""
        every = np.arange(self.problem.tensor_count)
        return self.problem.select(every, graph=self._graph_with(waits)) if waits else self.problem

    def antichain(self, waits: Waits) -> tuple[int, IntColumn]:
        """Return the bytes and the tensors of the heaviest antichain with some waits."""
        core = core_graph(self._graph_with(waits))
        heaviest, tensors = _core.AntichainSearch(core, self.problem.size).run(np.inf)
        return heaviest, tensors.astype(np.int64)

    def users_of(self, tensor: int) -> IntColumn:
        """Return the nodes that have to end before a tensor is dead."""
        readers = self.graph.consumers_of(tensor)
        return readers if len(readers) else self.graph.producer[tensor : tensor + 1]

    def reach(self, waits: Waits) -> Reach:
        """Return which node leads to which with some waits."""
        graph = self._graph_with(waits)
        sources = np.concatenate((graph.producer[graph.consumer_tensors], graph.control[:, 0]))
        targets = np.concatenate((graph.consumer_nodes, graph.control[:, 1]))
        before: list[list[int]] = [[] for _ in range(graph.node_count)]
        for arc in np.unique(np.column_stack((sources, targets)), axis=0).tolist():
            before[arc[1]].append(arc[0])
        position = np.zeros(graph.node_count, dtype=np.int64)
        clock = np.zeros((graph.node_count, int(self.stream.max()) + 1), dtype=np.int64)
        last: dict[int, int] = {}
        for node, stream in enumerate(self.stream.tolist()):
            row = clock[node]
            if stream in last:
                before[node].append(last[stream])
                position[node] = position[last[stream]]
            for earlier in before[node]:
                np.maximum(row, clock[earlier], out=row)
            position[node] += 1
            row[stream] = position[node]
            last[stream] = node
        return Reach(self.stream, position, clock)

    def _graph_with(self, waits: Waits) -> Graph:
        """Return the graph with control arcs for some waits behind its own."""
        if not waits:
            return self.graph
        return self.graph.with_control(np.concatenate((self.graph.control, sorted(waits))))


def without_streams(problem: Problem) -> Problem:
    """Return a problem as a planner sees it that takes the global order for the only one.

    Its plans may let tensors share bytes that two streams need at the same time.
    """
    if problem.graph is None:
        raise InstanceError(
            f"{problem.name}: a graph is needed to ignore streams, found {problem.safety.value}"
        )
    start, end = problem.graph.lifetimes()
    return problem.select(
        np.arange(problem.tensor_count),
        start=start,
        end=end,
        capacity=None,
        name=f"{problem.name}, streams ignored",
    )
