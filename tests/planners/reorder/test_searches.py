"""The searches of the core alone, without the walks that would find for them what they miss."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from planners import Graph, Problem, _core
from planners.reorder.reordering import bound_of_order, in_order
from planners.testing.random_problems import random_graph
from tests.planners.reorder.every_order import every_order, heaviest_unsafe_set, live_bytes

pytestmark = pytest.mark.core

NO_LIMIT = 1 << 60


def narrow(values: object) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.int32)


def core_of(problem: Problem) -> tuple[_core.OrderProblem, _core.GraphColumns, Graph]:
    graph = problem.graph
    assert graph is not None
    arcs = (graph.consumer_offsets, narrow(graph.consumer_nodes), narrow(graph.control))
    _, stream = np.unique(graph.stream, return_inverse=True)
    return (
        _core.OrderProblem(graph.node_count, narrow(graph.producer), *arcs, problem.size),
        _core.GraphColumns(narrow(stream), narrow(graph.producer), *arcs, problem.size),
        graph,
    )


def small_problem(seed: int) -> Problem:
    rng = Random(seed)
    graph = random_graph(rng, (3, 9), max_nodes=7, max_streams=3)
    return Problem([rng.randint(0, 9) for _ in range(graph.tensor_count)], graph=graph)


@pytest.mark.parametrize("seed", range(60))
def test_sets_find_the_least_peak(seed: int) -> None:
    problem = small_problem(seed)
    core, _, graph = core_of(problem)
    least = min(live_bytes(problem, order) for order in every_order(graph))
    assert core.forced_bytes(60) <= least
    search = _core.DownSetSearch(core)
    assert search.run(0, NO_LIMIT, NO_LIMIT, 60) is _core.OrderVerdict.FOUND
    assert search.bound == least
    assert live_bytes(problem, search.order.tolist()) == core.peak(search.order) == least
    refuted = _core.DownSetSearch(core)
    assert refuted.run(0, least, NO_LIMIT, 60) is _core.OrderVerdict.REFUTED


@pytest.mark.parametrize("seed", range(60))
def test_orders_of_streams_find_the_least_antichain(seed: int) -> None:
    problem = small_problem(seed)
    core, columns, graph = core_of(problem)
    least = min(
        heaviest_unsafe_set(in_order(problem, np.array(order))) for order in every_order(graph)
    )
    search = _core.StreamOrderSearch(core, columns)
    assert search.run(0, NO_LIMIT, NO_LIMIT, 60) is _core.OrderVerdict.FOUND
    found = in_order(problem, search.order.astype(np.int64))
    assert heaviest_unsafe_set(found) == least
    assert search.run(0, least, NO_LIMIT, 60) is _core.OrderVerdict.REFUTED


@pytest.mark.parametrize("seed", range(20))
def test_walks_never_leave_an_arc_behind(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng, (20, 60), max_nodes=40, max_streams=4)
    problem = Problem([rng.randint(0, 99) for _ in range(graph.tensor_count)], graph=graph)
    core, columns, _ = core_of(problem)
    given = np.arange(graph.node_count, dtype=np.int32)
    walk = _core.OrderWalk(core, given, 0, seed)
    walk.run(500, 60)
    assert walk.best_peak == core.peak(walk.best) <= core.peak(given)
    assert live_bytes(problem, walk.best.tolist()) == walk.best_peak
    streams = _core.StreamWalk(core, columns, given, 0, seed)
    streams.run(50, 60)
    found = in_order(problem, streams.best.astype(np.int64))
    assert bound_of_order(found).bytes <= bound_of_order(problem).bytes


def test_a_walk_survives_sums_that_are_rounded() -> None:
    # Bytes beyond the target, added up over a dozen steps, pass what a double holds exactly.
    for seed in range(8):
        rng = Random(seed)
        graph = random_graph(rng, (20, 60), max_nodes=40, max_streams=1)
        sizes = [rng.randrange(1 << 50, 1 << 54) | 1 for _ in range(graph.tensor_count)]
        core, _, _ = core_of(Problem(sizes, graph=graph))
        walk = _core.OrderWalk(core, np.arange(graph.node_count, dtype=np.int32), 0, seed)
        walk.run(20_000, 60)
        assert walk.best_peak == core.peak(walk.best)
