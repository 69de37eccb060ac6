"""What single waits are worth, held against every set of tensors of small graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from evaluation.findings.waits import (
    JudgedWaits,
    Wait,
    best_new_waits,
    dearest_waits,
    heaviest_antichain,
    missing_waits,
    waits_of,
    with_wait,
    without_wait,
)
from planners import Graph
from planners.safety.algorithms import core_graph
from tests.definitions import successors

SEEDS = range(25)


def drawn(seed: int) -> tuple[Graph, list[int]]:
    """Return a graph of ten nodes and nine tensors on three streams, and sizes."""
    rng = np.random.default_rng(seed)
    producer = rng.integers(0, 10, 9).tolist()
    consumers = [
        sorted({int(rng.integers(first, 10)) for _ in range(rng.integers(0, 3))})
        for first in producer
    ]
    pairs = [tuple(sorted(rng.choice(10, 2, replace=False).tolist())) for _ in range(4)]
    graph = Graph(
        op=["op"] * 10, stream=rng.integers(0, 3, 10), producer=producer, consumers=consumers,
        control=pairs,
    )  # fmt: skip
    return graph, rng.integers(1, 20, 9).tolist()


def brute_force(
    graph: Graph, size: list[int], less: Wait | None = None, more: Wait | None = None
) -> int:
    """Return the heaviest antichain by the definition, every set of tensors tried."""
    direct = successors(graph)
    if less is not None:
        direct[less.before].discard(less.after)
    if more is not None:
        direct[more.before].add(more.after)
    reached: list[set[int]] = [set() for _ in direct]
    for node in reversed(range(len(direct))):
        for other in direct[node]:
            reached[node] |= {other} | reached[other]
    producer = graph.producer.tolist()
    users = [{producer[t], *graph.consumers_of(t).tolist()} for t in range(len(size))]
    # Where its wait counts, a producer adds nothing to its readers.
    safe = {
        (a, b)
        for a, b in itertools.permutations(range(len(size)), 2)
        if all(producer[b] in reached[user] for user in users[a])
    }
    return max(
        sum(size[tensor] for tensor in chosen)
        for count in range(len(size) + 1)
        for chosen in itertools.combinations(range(len(size)), count)
        if not any(pair in safe for pair in itertools.permutations(chosen, 2))
    )


def antichain(graph: Graph, size: list[int]) -> int:
    return heaviest_antichain(core_graph(graph), np.array(size, dtype=np.int64))[0]


def cross_pairs(graph: Graph) -> list[Wait]:
    stream = graph.stream.tolist()
    return [
        Wait(u, v) for u, v in itertools.combinations(range(len(stream)), 2)
        if stream[u] != stream[v]
    ]  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_one_wait_less(seed: int) -> None:
    graph, size = drawn(seed)
    today = brute_force(graph, size)
    assert antichain(graph, size) == today
    direct = successors(graph)
    costs = {}
    for wait in cross_pairs(graph):
        if wait.after in direct[wait.before]:
            costs[wait] = brute_force(graph, size, less=wait) - today
            assert antichain(without_wait(graph, wait), size) - today == costs[wait]
    # Those that are implied are worth nothing.
    assert not any(cost for wait, cost in costs.items() if wait not in waits_of(graph))
    assert_most(dearest_waits(graph, np.array(size), 3), costs, 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_wait_more(seed: int) -> None:
    graph, size = drawn(seed)
    today = brute_force(graph, size)
    saved = {}
    for wait in missing_waits(graph):
        saved[wait] = today - brute_force(graph, size, more=wait)
        assert today - antichain(with_wait(graph, wait), size) == saved[wait]
    assert_most(best_new_waits(graph, np.array(size), 3), saved, 3)
    # No other wait saves more than the best of those that were asked for.
    every = [today - brute_force(graph, size, more=wait) for wait in cross_pairs(graph)]
    assert max(every, default=0) == max(saved.values(), default=0)


def assert_most(judged: JudgedWaits, worth: dict[Wait, int], most: int) -> None:
    expected = sorted((each for each in worth.values() if each > 0), reverse=True)[:most]
    assert [each.change for each in judged.most] == expected
    assert all(worth[each.wait] == each.change for each in judged.most)
    assert judged.judged <= judged.candidates
