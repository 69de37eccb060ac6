"""auto: never worse than greedy, with the bound, whatever ends it."""

from __future__ import annotations

import random

import pytest

from instances import synthetic
from planners import (
    Budget,
    Problem,
    Result,
    Safety,
    Status,
    UnknownPlannerError,
    bounds_of,
    check,
    place_in_objects,
    registry,
    run,
)
from planners.registry import get
from planners.search.auto import NAMES
from planners.search.exact_step import ExactStep
from planners.testing.random_problems import random_problem
from tests.interrupts import interrupt_after

HARD = synthetic.training_graph(200, streams=2, chains=10, chain_length=8, seed=200)
"""No greedy planner and no search met a bound of it yet."""

RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
"""Two tensors at a time fit into four bytes, and yet five of two bytes need six."""

GREEDY = [info.name for info in registry.planners("greedy-*,many-objects-*")]


def auto(problem: Problem, budget: Budget | None = None) -> Result:
    """Run it as a user does, and have the slow referee look at the plan."""
    result = run(problem, get("auto"), budget, bounds_of(problem))
    if result.plan is not None:
        check(problem, result.plan)
    return result


def best_greedy(problem: Problem) -> int | None:
    plans = [run(problem, get(name)).peak for name in GREEDY]
    return min((peak for peak in plans if peak is not None), default=None)


@pytest.mark.parametrize("safety", Safety)
def test_never_worse_than_the_best_greedy_planner(safety: Safety) -> None:
    for seed in range(30):
        problem = random_problem(random.Random(f"auto {safety} {seed}"), safety, (0, 30))
        result, greedy = auto(problem, Budget(node_limit=600)), best_greedy(problem)
        if result.status is Status.INFEASIBLE:
            continue
        assert result.peak is not None
        assert greedy is not None
        if problem.capacity is None or greedy > problem.capacity:
            assert result.peak <= greedy
        else:
            assert result.peak <= problem.capacity


def test_names_the_bound_that_it_met_and_what_met_it() -> None:
    result = auto(Problem([1024, 768, 640, 512, 256], [0, 3, 1, 4, 2], [2, 5, 3, 6, 5]))
    assert (result.status, result.peak, result.certificate) == (Status.OPTIMAL, 1664, "lifetime")
    assert result.statistics["found_by"]


@pytest.mark.parametrize(
    "problem",
    [
        synthetic.training_graph(200, streams=2, chains=4, seed=200),
        synthetic.data_parallel_graph(10, branches=1, bucket_layers=16, seed=10),
    ],
    ids=lambda problem: problem.name,
)
def test_local_search_meets_bounds_that_no_order_of_levels_does(problem: Problem) -> None:
    assert run(problem, get("pressure"), bounds=bounds_of(problem)).status is Status.FEASIBLE
    assert auto(problem, Budget(node_limit=300_000)).status is Status.OPTIMAL


@pytest.mark.parametrize("seed", [0, 5])
def test_the_same_seed_and_node_limit_give_the_same_plan(seed: int) -> None:
    budget = Budget(node_limit=20_000, seed=seed)
    one, other = auto(HARD, budget), auto(HARD, budget)
    assert one.plan is not None
    assert other.plan is not None
    assert one.plan.offsets.tolist() == other.plan.offsets.tolist()
    assert one.statistics == other.statistics


def test_a_node_limit_is_kept() -> None:
    for limit in (0, 1, 20, 400, 5_000):
        result = auto(HARD, Budget(node_limit=limit))
        assert result.statistics["attempts"] <= max(1, limit)


def test_without_a_limit_it_ends() -> None:
    result = auto(synthetic.random_lifetimes(600, seed=1))
    assert result.plan is not None


@pytest.mark.parametrize("attempts", [1, 5, 40])
@pytest.mark.parametrize("planner", ["auto", "pressure", "homosize"])
def test_ctrl_c_keeps_the_best_plan(
    planner: str, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_after(monkeypatch, attempts)
    result = run(HARD, planner)
    assert result.status is Status.FEASIBLE
    assert result.reason == "interrupted"
    assert result.interrupted
    assert result.statistics["attempts"] == attempts


def test_no_time_for_the_first_plan_is_not_a_proof() -> None:
    result = auto(synthetic.random_lifetimes(2_000), Budget(time_limit_seconds=0.0))
    assert result.status is Status.NO_PLAN_FOUND
    assert "time limit" in result.reason


def test_a_plan_that_fits_ends_the_search() -> None:
    result = auto(HARD.with_capacity(place_in_objects(HARD).peak))
    assert result.status is Status.FEASIBLE
    assert result.statistics["attempts"] == 1


def turns_of(result: Result) -> dict[str, int]:
    """Return how many turns each search had, by the statistics."""
    told = str(result.statistics["turns"])
    return {name: int(turns) for name, turns in (turn.split() for turn in told.split(", "))}


def test_every_search_has_turns_or_a_reason() -> None:
    result = auto(HARD, Budget(node_limit=30_000))
    assert turns_of(result) == {"exact": 1, "orders": 1, "largest-first": 1}
    reasons = dict(told.split(": ", 1) for told in str(result.statistics["no_turn"]).split("; "))
    assert reasons == {
        "nests": "lifetimes do not decide what is unsafe",
        "parts": "tensors are chained",
        "fills": "lifetimes do not decide what is unsafe",
        "beams": "lifetimes do not decide what is unsafe",
        "windows": "fewer than 500 blocks",
        "bounds": "every bound is known",
    }


def test_a_search_that_is_not_needed_has_no_turn() -> None:
    statistics = auto(Problem([2, 2], [0, 1], [1, 2])).statistics
    assert statistics["turns"] == "none"
    assert statistics["no_turn"] == "all: the search ended before the first turn"


@pytest.mark.parametrize("off", ["exact", "orders+largest-first"])
def test_a_search_that_is_switched_off_has_no_turn(off: str) -> None:
    result = run(HARD, get("auto", without=off), Budget(node_limit=30_000))
    assert turns_of(result).keys() == {"exact", "orders", "largest-first"} - set(off.split("+"))
    assert f"{off.split('+')[0]}: switched off" in str(result.statistics["no_turn"])


def test_pieces_of_a_nest_are_searched_without_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(ExactStep, "run", lambda *_: asked.append("exact"))
    problem = synthetic.scaling_family(600, seed=1)
    run(problem, get("auto", without="exact"), Budget(node_limit=10_000))
    assert asked == []
    run(problem, get("auto"), Budget(node_limit=10_000))
    assert asked


@pytest.mark.parametrize("left", [(), *((name,) for name in NAMES)], ids=str)
@pytest.mark.parametrize(
    "problem",
    [HARD, synthetic.guillotine_packing(30, seed=1), Problem([2] * 5, unsafe_pairs=RING)],
    ids=["graph", "lifetimes", "pairs"],
)
def test_with_one_search_left_it_ends(problem: Problem, left: tuple[str, ...]) -> None:
    off = "+".join(name for name in NAMES if name not in left)
    result = run(problem, get("auto", without=off), Budget(node_limit=2_000))
    assert result.plan is not None
    check(problem, result.plan)


@pytest.mark.parametrize("wrong", ["beam", "beams,nests", "beams+all", 3])
def test_an_unknown_search_is_named_with_all_that_there_are(wrong: str | int) -> None:
    with pytest.raises(UnknownPlannerError, match=", ".join(NAMES)) as error:
        get("auto", without=wrong)
    assert repr(wrong) in str(error.value)


@pytest.mark.long
def test_a_million_tensors() -> None:
    result = auto(synthetic.random_lifetimes(1_000_000), Budget(time_limit_seconds=60))
    assert result.status in (Status.FEASIBLE, Status.OPTIMAL)
