"""What the planner that searches orders says of a graph, on its streams and on one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from instances.synthetic import training_graph
from planners import Problem, Status, run

PROBLEM = training_graph(60, streams=4, chains=4, chain_length=3, seed=1)
BRIEFLY = "search_seconds=0.2:plan_seconds=0.1"


@pytest.fixture(autouse=True)
def planner(bring: Callable[[str], None]) -> None:
    bring("reorderings")


@pytest.mark.parametrize("streams", ["kept", "one"])
def test_bounds_of_both_orders_are_said(streams: str) -> None:
    result = run(PROBLEM, f"reorderings:streams={streams}:{BRIEFLY}")
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    said = {name: value for name, value in result.statistics.items() if isinstance(value, int)}
    assert said["least"] <= said["reordered"] <= said["given"]
    assert said["reordered"] <= said["reordered_peak"]
    assert said["given"] <= said["given_peak"]


def test_without_a_graph_there_is_one_order() -> None:
    result = run(Problem([1], [0], [1]), "reorderings")
    assert result.status is Status.UNSUPPORTED
