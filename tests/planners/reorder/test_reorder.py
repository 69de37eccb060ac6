"""The order that is found, against every order there is; and what a search may and may not do."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from planners import Budget, Graph, InstanceError, Problem, Status, bounds_of, read_problem
from planners.referee.order import check_order
from planners.reorder import Reordering, reorder
from planners.reorder.reordering import in_order
from planners.testing.random_problems import random_graph
from tests.planners.reorder.every_order import every_order, heaviest_unsafe_set, live_bytes
from tests.repository import ROOT

pytestmark = pytest.mark.core

# Sets, moves and flows; enough to settle every small graph here.
FEW_NODES = Budget(node_limit=4000)


def small_problem(seed: int, streams: int) -> Problem:
    rng = Random(seed)
    graph = random_graph(rng, (0, 9), max_nodes=7, max_streams=streams)
    return Problem([rng.randint(0, 9) for _ in range(graph.tensor_count)], graph=graph)


def wide_problem(branches: int, length: int, streams: int = 1) -> Problem:
    """Return chains side by side between a first and a last node, given breadth first.

    Depth first, one branch after the other, needs less: each begins large and ends small.
    """
    nodes = [(step, branch) for step in range(length) for branch in range(branches)]
    number = {node: index + 1 for index, node in enumerate(nodes)}
    last = len(nodes) + 1
    consumers = [[number[0, branch] for branch in range(branches)]]
    producer, size = [0], [1]
    for step, branch in nodes:
        producer.append(number[step, branch])
        consumers.append([number.get((step + 1, branch), last)])
        size.append(10 * (length - step))
    graph = Graph(
        op=["node"] * (last + 1),
        stream=[node % streams for node in range(last + 1)],
        producer=producer,
        consumers=consumers,
    )
    return Problem(size, graph=graph)


def require_sound(problem: Problem, found: Reordering) -> None:
    check_order(problem, found.problem, found.order)
    assert found.least_bytes <= found.bound.bytes <= found.given_bound.bytes
    bounds = {bound.name: bound.bytes for bound in bounds_of(found.problem)}
    assert bounds[found.bound.name] == found.bound.bytes


@pytest.mark.parametrize("part", range(8))
def test_one_stream_is_solved_as_every_order_says(part: int) -> None:
    improved = 0
    for seed in range(part, 320, 8):
        problem = small_problem(seed, 1)
        assert problem.graph is not None
        least = min(live_bytes(problem, order) for order in every_order(problem.graph))
        found = reorder(problem, FEW_NODES)
        require_sound(problem, found)
        assert (found.status, found.bound.bytes) == (Status.OPTIMAL, least), seed
        improved += found.saved_bytes > 0
    assert improved


@pytest.mark.parametrize("part", range(4))
def test_several_streams_are_solved_as_every_order_says(part: int) -> None:
    certificates = set()
    for seed in range(part, 160, 4):
        problem = small_problem(seed, 3)
        assert problem.graph is not None
        found = reorder(problem, FEW_NODES)
        require_sound(problem, found)
        least = min(
            heaviest_unsafe_set(in_order(problem, np.array(order)))
            for order in every_order(problem.graph)
        )
        assert (found.status, found.bound.bytes) == (Status.OPTIMAL, least), seed
        certificates.add(found.certificate)
    assert "stream-orders" in certificates


@pytest.mark.parametrize("streams", [1, 3])
def test_a_wide_graph_is_run_depth_first(streams: int) -> None:
    problem = wide_problem(branches=8, length=4, streams=streams)
    found = reorder(problem, Budget(node_limit=3000))
    require_sound(problem, found)
    assert found.saved_bytes > 0


def test_the_same_seed_and_node_limit_give_the_same_order() -> None:
    problem = wide_problem(branches=12, length=5, streams=2)
    budget = Budget(node_limit=900, seed=3)
    first, second = reorder(problem, budget), reorder(problem, budget)
    assert first.order.tolist() == second.order.tolist()
    assert first.statistics == second.statistics
    assert sum(first.statistics.values()) <= 900


@pytest.mark.parametrize("budget", [Budget(node_limit=0), Budget(time_limit_seconds=0)])
def test_without_anything_to_spend_the_order_stays_or_is_better(budget: Budget) -> None:
    problem = wide_problem(branches=5, length=3, streams=2)
    require_sound(problem, reorder(problem, budget))


def test_an_extracted_graph_is_proven() -> None:
    problem = read_problem(ROOT / "instances/resnet-50.json.gz")
    found = reorder(problem, Budget(node_limit=200_000))
    require_sound(problem, found)
    assert found.status is Status.OPTIMAL
    assert (found.certificate, found.bound.bytes) == ("down-sets", 1_413_363_712)


def test_control_arcs_chains_and_pins_stay() -> None:
    graph = Graph(
        op=["a", "b", "read a", "read b"],
        stream=[0, 0, 0, 0],
        producer=[0, 1],
        consumers=[[2], [3]],
        control=[(0, 3), (1, 2)],
    )
    problem = Problem([5, 3], graph=graph, contiguous=[(0, 1)], pinned={0: 4})
    found = reorder(problem, FEW_NODES)
    require_sound(problem, found)
    assert (found.status, found.saved_bytes) == (Status.OPTIMAL, 0)
    assert found.problem.contiguous == ((0, 1),)
    assert found.problem.pinned.tolist() == [4, -1]


def test_an_empty_graph_has_its_order() -> None:
    graph = Graph(op=[], stream=[], producer=[], consumers=[])
    found = reorder(Problem([], graph=graph))
    assert (found.status, found.bound.bytes, len(found.order)) == (Status.OPTIMAL, 0, 0)


def test_without_a_graph_nothing_is_reordered() -> None:
    with pytest.raises(InstanceError, match=r"a graph is needed.*found lifetimes"):
        reorder(Problem([1], [0], [1]))
