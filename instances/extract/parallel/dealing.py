"""The nodes of a graph dealt again to streams of another length, and which of those never wait."""

from __future__ import annotations

from instances.extract.parallel.streams import StreamScheme, assign_streams, find_successions
from planners.errors import InstanceError
from planners.model.graph import Graph
from planners.model.problem import Problem


def dealt_again(problem: Problem, nodes_per_stream: int, scheme: StreamScheme) -> Problem:
    """Return the same tensors, without chains, whose nodes run on other streams; arcs stay."""
    graph = problem.graph
    if graph is None:
        raise InstanceError(
            f"{problem.name}: a graph is needed to deal its nodes to streams, found lifetimes or "
            f"pairs alone"
        )
    streams = assign_streams(graph.op, nodes_per_stream, scheme)
    control = {(int(before), int(after)) for before, after in graph.control}
    if scheme is StreamScheme.SUCCESSION:
        control.update(find_successions(graph.op, streams))
    return Problem(
        problem.size,
        graph=Graph(
            op=graph.op,
            stream=streams,
            producer=graph.producer,
            consumers=[graph.consumers_of(tensor) for tensor in range(graph.tensor_count)],
            control=sorted(control),
        ),
    )


def count_open(graph: Graph) -> tuple[int, int]:
    """Return how many streams never wait for the full one that they follow, of how many."""
    borders = find_successions(graph.op, graph.stream.tolist())
    ends = {before: 1 << border for border, (before, _) in enumerate(borders)}
    arcs: list[list[int]] = [[] for _ in graph.op]
    for tensor, reader in zip(
        graph.consumer_tensors.tolist(), graph.consumer_nodes.tolist(), strict=True
    ):
        arcs[reader].append(int(graph.producer[tensor]))
    for before, after in graph.control.tolist():
        arcs[after].append(before)
    # Bit by bit, which ends of full streams a node comes after.
    waits = [0] * graph.node_count
    last_on: dict[int, int] = {}
    for node, stream in enumerate(graph.stream.tolist()):
        for before in (*arcs[node], *([last_on[stream]] if stream in last_on else [])):
            if before != node:
                waits[node] |= waits[before] | ends.get(before, 0)
        last_on[stream] = node
    open_count = sum(
        not waits[last_on[int(graph.stream[after])]] >> border & 1
        for border, (_, after) in enumerate(borders)
    )
    return open_count, len(borders)
