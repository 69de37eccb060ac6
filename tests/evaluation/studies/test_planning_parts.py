"""What the planner that times the parts of planning says of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from instances.synthetic import training_graph
from planners import Problem, Status, run


@pytest.fixture(autouse=True)
def planner(bring: Callable[[str], None]) -> None:
    bring("planning_parts")


@pytest.mark.parametrize(("streams", "bound"), [(1, "lifetime"), (4, "antichain")])
def test_every_part_is_timed_beside_a_greedy_plan(streams: int, bound: str) -> None:
    problem = training_graph(60, streams=streams, seed=1)
    result = run(problem, "planning-parts")
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert result.peak == run(problem, "greedy-size-first").peak
    assert result.statistics["bound"] == bound
    names = ("safety_seconds", "bound_seconds", "referee_seconds")
    assert all(float(result.statistics[name]) >= 0 for name in names)


def test_given_pairs_have_no_relation_to_find() -> None:
    problem = Problem([1, 2], unsafe_pairs=[(0, 1)])
    assert run(problem, "planning-parts").status is Status.UNSUPPORTED
