"""What the planner that changes one wait or chain at a time says of a graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evaluation.findings.waits import best_new_waits, dearest_waits
from instances.synthetic import training_graph
from planners import Graph, Problem, Status, run

PROBLEM = training_graph(60, streams=4, chains=4, chain_length=3, seed=1)


@pytest.fixture(autouse=True)
def planner(bring: Callable[[str], None]) -> None:
    bring("single_changes")


@pytest.mark.parametrize(("change", "search"), [("less", dearest_waits), ("more", best_new_waits)])
def test_waits_are_those_of_the_search(change: str, search: Callable[..., object]) -> None:
    assert PROBLEM.graph is not None
    result = run(PROBLEM, f"single-changes:change={change}:most=3:seconds=0.1")
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    judged = search(PROBLEM.graph, PROBLEM.size, 3)
    said = result.statistics
    assert judged.most  # type: ignore[attr-defined]
    for rank, worth in enumerate(judged.most, 1):  # type: ignore[attr-defined]
        assert said[f"{rank}.bytes"] == worth.change
        assert said[f"{rank}.after"] == f"{PROBLEM.graph.op[worth.wait.after]} {worth.wait.after}"
        # A plan of the changed graph is never below its antichain.
        assert int(said[f"{rank}.peak"]) >= worth.antichain


def test_a_chain_that_costs_is_found() -> None:
    # The two of four bytes are never alive together, and lie side by side in a chain alone.
    graph = Graph(op=["a", "b", "c"], stream=[0, 0, 0], producer=[0, 2, 0],
                  consumers=[[], [], [1]])  # fmt: skip
    problem = Problem([4, 4, 1], graph=graph, contiguous=[(0, 1)])
    said = run(problem, "single-changes:change=chain:seconds=0.1").statistics
    assert (said["candidates"], said["1.members"], said["1.chain_bytes"]) == (1, 2, 8)
    assert (said["peak"], said["1.peak"]) == (8, 5)
    assert (said["greedy"], said["1.greedy"]) == (8, 5)


def test_lifetimes_alone_have_no_waits() -> None:
    assert run(Problem([1], [0], [1]), "single-changes").status is Status.UNSUPPORTED
