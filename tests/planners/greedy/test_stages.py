"""The frame of planners that work in stages: what ends them, and what they answer then."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from instances.synthetic import training_graph
from planners import Budget, Problem, Status, check, get, place, run
from planners.greedy.stages import (
    Stage,
    ask_for_bounds_after_a_plan,
    plan_in_stages,
    with_node_limit,
)
from planners.homosize.structured_orders import structured_orders
from planners.model.incumbent import Incumbent
from planners.model.plan import Plan
from planners.referee.judge import judge
from tests.interrupts import stop_after

pytestmark = pytest.mark.core

RING = Problem([2] * 5, unsafe_pairs=[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
"""Any plan needs 6 bytes, and the bounds of it say 4."""
LOW, HIGH = place(RING), Plan([0, 2, 4, 6, 8], 10)


def incumbent_of(budget: Budget | None = None, target: int | None = None) -> Incumbent:
    return Incumbent(RING, (budget or Budget()).started(), target)


def raising(error: type[BaseException]) -> Stage:
    def stage() -> None:
        raise error

    return stage


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (Budget(), 40),
        (Budget(node_limit=3), 3),
        (Budget(node_limit=0), 0),
        (Budget(time_limit_seconds=9.0), None),
    ],
)
def test_only_a_budget_without_limits_gets_one(budget: Budget, limit: int | None) -> None:
    assert with_node_limit(RING, budget, 200, 10).node_limit == limit
    assert with_node_limit(RING, Budget(), 200, 50).node_limit == 50


def test_stages_end_where_the_plan_is_good_enough() -> None:
    incumbent, run_stages = incumbent_of(target=6), list[str]()

    def stage(name: str, plan: Plan) -> Callable[[], None]:
        return lambda: (run_stages.append(name), incumbent.offer(plan, name))[-1]

    found = plan_in_stages(incumbent, [stage("a", HIGH), stage("b", LOW), stage("c", LOW)])
    assert run_stages == ["a", "b"]
    assert found.plan is LOW
    assert found.statistics == {"attempts": 0, "found_by": "b"}
    assert (found.reason, found.interrupted) == ("", False)


@pytest.mark.parametrize(
    ("error", "reason"), [(TimeoutError, "time limit"), (KeyboardInterrupt, "interrupted")]
)
def test_an_early_end_leaves_the_best_plan(error: type[BaseException], reason: str) -> None:
    incumbent = incumbent_of()
    incumbent.ask_for_bounds()
    found = plan_in_stages(
        incumbent, [lambda: incumbent.offer(LOW, "x"), raising(error), lambda: 1 // 0]
    )
    assert (found.plan, found.reason) == (LOW, reason)
    assert found.interrupted == (error is KeyboardInterrupt)
    assert (found.lower_bound, found.certificate) == (4, "clique")


@pytest.mark.parametrize("error", [TimeoutError, KeyboardInterrupt])
@pytest.mark.parametrize("planner", ["auto", "pressure", "homosize"])
def test_before_the_first_plan_nothing_is_reused(
    planner: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem([3, 2, 2], [0, 0, 2], [2, 4, 4])
    stop_after(monkeypatch, 0, error)
    result = run(problem, get(planner))
    assert result.plan is not None
    check(problem, result.plan)
    assert (result.peak, result.statistics["found_by"]) == (7, "no reuse")
    assert result.interrupted == (error is KeyboardInterrupt)


def test_without_any_plan_it_says_what_ended_it() -> None:
    # Padded to the alignment of one tensor, a plan without reuse would leave int64.
    ones = np.ones((1 << 21) + 1, dtype=np.int64)
    alignment = ones.copy()
    alignment[0] = 1 << 40
    problem = Problem(ones, 0 * ones, ones, alignment=alignment)
    for error, came in (
        (TimeoutError, "the time limit passed"),
        (KeyboardInterrupt, "Ctrl-C came"),
    ):
        incumbent = Incumbent(problem, Budget().started())
        found = plan_in_stages(incumbent, [raising(error)])
        assert (found.plan, found.reason) == (None, f"{came} before the first greedy plan")
        assert found.lower_bound == len(ones)


def test_no_time_for_an_order_and_no_room_for_any_plan_start_nothing() -> None:
    late = incumbent_of(Budget(time_limit_seconds=0.0))
    assert plan_in_stages(late, [lambda: 1 // 0]).reason == (
        "the time limit leaves no room for a plan"
    )
    tight = incumbent_of(target=3)
    tight.ask_for_bounds()
    found = plan_in_stages(tight, [lambda: 1 // 0])
    assert (found.plan, found.lower_bound, found.certificate) == (None, 4, "clique")


def test_a_proof_of_a_search_ends_the_rest_and_is_named() -> None:
    incumbent = incumbent_of()
    incumbent.offer(LOW, "x")
    incumbent.prove(5, "first")
    assert (incumbent.over, incumbent.findings().lower_bound) == (False, 5)
    incumbent.exhaust("second")
    found = incumbent.findings("time limit")
    assert incumbent.over
    assert (found.lower_bound, found.certificate, found.reason) == (6, "second", "")
    incumbent.prove(3, "third")
    assert incumbent.findings().certificate == "second"


def test_a_proof_that_the_incumbent_refutes_is_handed_to_the_judge() -> None:
    incumbent = incumbent_of()
    incumbent.offer(LOW, "x")
    incumbent.prove(8, "below")
    result = judge(incumbent.problem, incumbent.findings())
    assert (result.status, incumbent.over) == (Status.INVALID, True)
    assert "no plan is below 8 bytes, and its own plan has 6" in result.reason


def test_nothing_left_above_the_target_proves_that_nothing_meets_it() -> None:
    incumbent = incumbent_of(target=5)
    incumbent.offer(HIGH, "x")
    assert incumbent.findings().reason == "the search ended before it found a plan that fits"
    assert incumbent.findings("time limit").reason == "time limit"
    assert not incumbent.over
    incumbent.exhaust("search")
    assert incumbent.over
    assert (incumbent.findings().lower_bound, incumbent.findings().reason) == (6, "")


@pytest.mark.parametrize("planner", ["pressure", "homosize"])
def test_the_plan_before_the_bounds_counts_as_an_attempt(planner: str) -> None:
    result = run(training_graph(60, streams=3, seed=1), get(planner), Budget(node_limit=1))
    assert result.statistics["attempts"] == 1


def test_bounds_that_are_known_are_not_waited_for_with_a_plan() -> None:
    problem = training_graph(60, streams=3, seed=1)
    first = Incumbent(problem, Budget().started())
    ask_for_bounds_after_a_plan(first, structured_orders)
    assert (first.count, first.bounds_are_known, first.bound.name) == (1, True, "antichain")
    second = Incumbent(problem, Budget().started())
    ask_for_bounds_after_a_plan(second, structured_orders)
    assert (second.count, second.best) == (0, None)
