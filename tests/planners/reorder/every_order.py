"""Every order of a small graph's nodes, one by one, and what it costs by definition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from planners import Graph, Problem
from tests import definitions


def arcs_of(graph: Graph) -> set[tuple[int, int]]:
    """Return the arcs of data and control, without those of streams."""
    arcs = {(int(u), int(v)) for u, v in graph.control}
    for tensor, producer in enumerate(graph.producer.tolist()):
        arcs |= {(producer, int(reader)) for reader in graph.consumers_of(tensor)}
    return {(u, v) for u, v in arcs if u != v}


def every_order(graph: Graph) -> Iterator[list[int]]:
    """Yield every order of all nodes in which each arc leads forwards."""
    arcs = arcs_of(graph)

    def extend(order: list[int]) -> Iterator[list[int]]:
        if len(order) == graph.node_count:
            yield list(order)
        for node in range(graph.node_count):
            if node in order or any(v == node and u not in order for u, v in arcs):
                continue
            order.append(node)
            yield from extend(order)
            order.pop()

    return extend([])


def live_bytes(problem: Problem, order: list[int]) -> int:
    """Return the most bytes that are alive while some node runs."""
    graph = problem.graph
    assert graph is not None
    place = {node: index for index, node in enumerate(order)}
    most = 0
    for step in range(len(order)):
        alive = 0
        for tensor, producer in enumerate(graph.producer.tolist()):
            users = [producer, *graph.consumers_of(tensor).tolist()]
            if place[producer] <= step <= max(place[user] for user in users):
                alive += int(problem.size[tensor])
        most = max(most, alive)
    return most


def heaviest_unsafe_set(problem: Problem) -> int:
    """Return the most bytes of tensors that are pairwise unsafe, by looking at every set."""
    graph = problem.graph
    assert graph is not None
    unsafe = definitions.unsafe_by_paths(graph)
    most = 0
    for bits in range(1 << problem.tensor_count):
        chosen = [t for t in range(problem.tensor_count) if bits >> t & 1]
        if all(pair in unsafe for pair in combinations(chosen, 2)):
            most = max(most, int(problem.size[chosen].sum()))
    return most
