"""Random graphs on streams, small enough to try every set of waits."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from planners import Graph, Problem, run


def random_problem(seed: int, nodes: int = 7, streams: int = 3, arcs: int = 2) -> Problem:
    rng = np.random.default_rng(seed)
    producer = rng.integers(0, nodes, nodes)
    consumers = [
        sorted({int(rng.integers(first, nodes)) for _ in range(rng.integers(0, 3))})
        for first in producer.tolist()
    ]
    control = np.sort(rng.integers(0, nodes, (arcs, 2)), axis=1)
    graph = Graph(
        op=["op"] * nodes, stream=rng.integers(0, streams, nodes), producer=producer,
        consumers=consumers, control=control[control[:, 0] < control[:, 1]],
    )  # fmt: skip
    return Problem(
        size=rng.integers(0, 9, nodes), graph=graph, alignment=2 ** rng.integers(0, 3, nodes)
    )


def exact_peak(problem: Problem) -> int:
    peak = run(problem, "branch-and-bound").peak
    assert peak is not None
    return peak


def brute_force(problem: Problem, most: int) -> list[int]:
    """The least peak with 0 to so many waits, over all sets of pairs of nodes."""
    graph = problem.graph
    assert graph is not None
    stream = graph.stream.tolist()
    pairs = [(u, v) for u, v in combinations(range(len(stream)), 2) if stream[u] != stream[v]]
    least = [exact_peak(problem)]
    for count in range(1, most + 1):
        peaks = []
        for chosen in combinations(pairs, min(count, len(pairs))):
            more = graph.with_control([*graph.control.tolist(), *chosen])
            peaks.append(exact_peak(problem.select(range(problem.tensor_count), graph=more)))
        least.append(min(peaks, default=least[0]))
    return least
