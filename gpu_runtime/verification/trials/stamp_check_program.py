"""The program of a problem: nodes on streams, with their stamps, checks and waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planners.errors import InstanceError
from planners.model.columns import IntColumn
from planners.model.graph import Graph
from planners.model.plain_form import is_plain
from planners.model.problem import Problem, Safety

Tensors = tuple[int, ...]


@dataclass(frozen=True)
class StampCheckProgram:
    """The nodes of a program, in global order.

    A node first stamps every tensor it makes, then checks every tensor it reads. So the tensors
    that it reads and makes are in memory at the same time, as in a kernel that reads while it
    writes.
    """

    # Stream of each node, numbered densely from 0.
    stream: tuple[int, ...]
    # Tensors that each node makes.
    stamps: tuple[Tensors, ...]
    # Tensors that each node reads, its workspaces, and the tensors it makes that no node reads: all
    # of them live while the node runs.
    checks: tuple[Tensors, ...]
    # Nodes of other streams that each node waits for, one event a direct arc of the graph. Only the
    # last node of each stream is kept, because the order of that stream implies the others.
    awaits: tuple[tuple[int, ...], ...]

    @property
    def node_count(self) -> int:
        return len(self.stream)

    @cached_property
    def stream_count(self) -> int:
        return max(self.stream, default=-1) + 1

    @cached_property
    def nodes_of_streams(self) -> tuple[tuple[int, ...], ...]:
        queues: list[list[int]] = [[] for _ in range(self.stream_count)]
        for node, stream in enumerate(self.stream):
            queues[stream].append(node)
        return tuple(map(tuple, queues))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """The nodes that wait for each node: the next of its stream, and those with an event."""
        after: list[list[int]] = [[] for _ in self.stream]
        last: dict[int, int] = {}
        for node, (stream, awaited) in enumerate(zip(self.stream, self.awaits, strict=True)):
            if stream in last:
                after[last[stream]].append(node)
            last[stream] = node
            for earlier in awaited:
                after[earlier].append(node)
        return tuple(map(tuple, after))

    def descendants(self, node: int) -> set[int]:
        """Return the nodes that a directed path of at least one arc leads to."""
        found: set[int] = set()
        frontier = [node]
        while frontier:
            fresh = set(self.successors[frontier.pop()]) - found
            found |= fresh
            frontier += fresh
        return found


def make_stamp_check_program(problem: Problem) -> StampCheckProgram:
    """Return the program that runs a problem's schedule, without tensors of 0 bytes.

    A graph gives its nodes, streams and arcs. Lifetimes give one stream, with a node for each step
    at which a tensor begins or is last needed; after a gap a tensor is stamped again.
    """
    if problem.safety is Safety.PAIRS:
        raise InstanceError(
            f"{problem.name}: verification runs a schedule; lifetimes or a graph are needed, "
            f"found field unsafe_pairs, which says nothing of the order of nodes"
        )
    if not is_plain(problem):
        raise InstanceError(
            f"{problem.name}: verification knows one memory and no classes of tensors, found "
            f"fields memories, together, apart or exclusive"
        )
    if problem.graph is not None:
        return _program_of_graph(problem.graph, problem.size)
    return _program_of_lifetimes(problem)


def _program_of_graph(graph: Graph, size: IntColumn) -> StampCheckProgram:
    stamps: list[list[int]] = [[] for _ in range(graph.node_count)]
    checks: list[list[int]] = [[] for _ in range(graph.node_count)]
    awaits: list[list[int]] = [[] for _ in range(graph.node_count)]
    for tensor, producer in enumerate(graph.producer.tolist()):
        users = sorted(set(graph.consumers_of(tensor).tolist()))
        for user in users:
            if user != producer:
                awaits[user].append(producer)
        if size[tensor]:
            stamps[producer].append(tensor)
            for user in users or [producer]:
                checks[user].append(tensor)
    for first, second in graph.control.tolist():
        awaits[second].append(first)
    stream = np.unique(graph.stream, return_inverse=True)[1].tolist()
    return StampCheckProgram(
        tuple(stream),
        tuple(map(tuple, stamps)),
        tuple(map(tuple, checks)),
        tuple(_last_of_each_stream(node, awaited, stream) for node, awaited in enumerate(awaits)),
    )


def _last_of_each_stream(node: int, awaited: Iterable[int], stream: list[int]) -> tuple[int, ...]:
    """Return the nodes that a node waits for by events; on its own stream the order suffices."""
    last = {stream[earlier]: earlier for earlier in sorted(awaited)}
    last.pop(stream[node], None)
    return tuple(sorted(last.values()))


def _program_of_lifetimes(problem: Problem) -> StampCheckProgram:
    rows = problem.segments()
    rows = rows[problem.size[rows[:, 0]] > 0]
    steps = np.unique(np.concatenate([rows[:, 1], rows[:, 2] - 1]))
    stamps: list[list[int]] = [[] for _ in steps]
    checks: list[list[int]] = [[] for _ in steps]
    tensors = rows[:, 0].tolist()
    first = np.searchsorted(steps, rows[:, 1]).tolist()
    last = np.searchsorted(steps, rows[:, 2] - 1).tolist()
    for tensor, begin, end in zip(tensors, first, last, strict=True):
        stamps[begin].append(tensor)
        checks[end].append(tensor)
    return StampCheckProgram(
        (0,) * len(steps), tuple(map(tuple, stamps)), tuple(map(tuple, checks)), ((),) * len(steps)
    )
