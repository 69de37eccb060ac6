"""The planner: what either variant plans, refuses and reaches."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.synthetic import random_lifetimes, training_graph, training_trace
from planners import Budget, Problem, Safety, Status, bounds_of, check, get, place, run
from planners.bounds import lifetime_bound
from planners.greedy.place import place_in_objects
from planners.homosize.orders import address_order, structured_orders
from planners.homosize.requests import static_problem, static_requests
from planners.registry import planners
from planners.run import solve
from tests.interrupts import interrupt_after
from tests.random_problems import problems, random_problem

PAPER = ({}, {"phases": False}, {"fusion": False})
GREEDY = "greedy-*,many-objects-*"


def with_phases(problem: Problem, length: int, dynamic: float = 0.0, seed: int = 0) -> Problem:
    """Return the same lifetimes in phases of equal length, some of them dynamic."""
    drawn = np.random.default_rng(seed).random(problem.tensor_count) < dynamic
    return Problem(
        problem.size,
        problem.start,
        problem.end,
        alignment=problem.alignment,
        phase_start=problem.start // length,
        phase_end=(problem.end - 1) // length,
        dynamic=drawn,
        name=problem.name,
    )


def phased(seed: int, tensors: int = 60) -> Problem:
    """Return a small training run, or lifetimes without structure, in phases."""
    made = training_trace(tensors, seed=seed) if seed % 2 else random_lifetimes(tensors, seed=seed)
    return with_phases(made, 12, dynamic=0.2 if seed % 3 == 0 else 0.0, seed=seed)


@pytest.mark.parametrize("seed", range(24))
def test_never_worse_than_the_paper_nor_than_greedy(seed: int) -> None:
    problem = phased(seed)
    best = solve(problem, get("homosize"))
    check(problem, best)
    for parameters in PAPER:
        published = solve(problem, get("homosize", variant="paper", **parameters))
        check(problem, published)
        assert best.peak <= published.peak
    for info in planners(GREEDY):
        assert best.peak <= solve(problem, get(info.name)).peak, info.name


@pytest.mark.parametrize("seed", range(60))
def test_the_published_planner_on_random_problems(seed: int) -> None:
    problem = random_problem(Random(seed), Safety.LIFETIMES, (0, 12))
    for parameters in PAPER:
        result = run(get("homosize", variant="paper", **parameters), problem)
        assert result.status is not Status.INVALID, result.reason
        if result.plan is not None:
            check(problem, result.plan)
        else:
            # Pins in conflict are found before any planner runs.
            assert result.status in (Status.UNSUPPORTED, Status.INFEASIBLE)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Problem([1, 2], unsafe_pairs=[(0, 1)]), "pairs or several streams"),
        (training_graph(20, streams=3), "pairs or several streams"),
        (Problem([1, 2], [0, 0], [1, 1], contiguous=[(0, 1)]), "contiguous chains"),
        (Problem([1], [0], [1], pinned={0: 4}), "pinned tensors"),
        (Problem([1], [0], [3], gaps=[(0, 1, 2)]), "gaps in lifetimes"),
        (Problem([1] * 3, [0] * 3, [1] * 3, alignment=[1 << 40] * 3), ""),
        (Problem([((1 << 61) - (1 << 42)) // 9] * 9, [0] * 9, [1] * 9,
                 alignment=[1 << 40] + [1] * 8), "pass 2**61"),
    ],
)  # fmt: skip
def test_what_the_published_planner_refuses(problem: Problem, reason: str) -> None:
    result = run(get("homosize", variant="paper"), problem)
    assert (result.status is Status.UNSUPPORTED) == bool(reason), result.reason
    assert reason in result.reason


def test_the_default_refuses_explicit_pairs_alone() -> None:
    result = run(get("homosize"), Problem([1, 2], unsafe_pairs=[(0, 1)]))
    assert result.status is Status.UNSUPPORTED
    for problem in (
        training_graph(40, streams=3, chains=2),
        Problem([1, 2], [0, 0], [1, 1], contiguous=[(1, 0)], pinned={0: 4}),
        Problem([4, 4], [0, 1], [3, 2], gaps=[(0, 1, 2)]),
    ):
        check(problem, solve(problem, get("homosize")))


def test_groups_are_aligned() -> None:
    problem = Problem(
        [3, 5, 9], [0, 1, 6], [8, 7, 9],
        alignment=[8, 1, 4], phase_start=[0, 0, 1], phase_end=[1, 1, 1],
    )  # fmt: skip
    plan = solve(problem, get("homosize", variant="paper"))
    check(problem, plan)
    # Three blocks of eight bytes: two stacked in the group, and 16 for the last one beside it.
    assert sorted(plan.offsets.tolist()) == [0, 8, 16]


def test_the_counts_of_every_stage_are_reported() -> None:
    problem = with_phases(training_trace(400, seed=1), 100)
    statistics = run(get("homosize", variant="paper"), problem).statistics
    assert set(statistics) == {"groups", "fusions", "layers", "inserted"}
    assert statistics["groups"] > 0
    layers_alone = run(get("homosize", variant="paper", phases=False), problem).statistics
    assert layers_alone["groups"] == 0


def test_a_problem_without_phases_is_one_phase() -> None:
    problem = training_trace(300, seed=2)
    as_is = solve(problem, get("homosize", variant="paper"))
    layers = solve(problem, get("homosize", variant="paper", phases=False))
    assert as_is.offsets.tolist() == layers.offsets.tolist()


def test_dynamic_requests_lie_around_the_static_plan() -> None:
    problem = phased(0)
    assert problem.dynamic is not None
    assert problem.dynamic.any()
    static, tensors = static_problem(problem)
    assert tensors.tolist() == np.flatnonzero(~problem.dynamic).tolist()
    alone = solve(static, get("homosize", variant="paper"))
    whole = solve(problem, get("homosize", variant="paper"))
    assert whole.offsets[tensors].tolist() == alone.offsets.tolist()
    assert static_requests(problem).tensor.tolist() == tensors.tolist()


def test_sizes_of_zero_take_part_in_nothing() -> None:
    problem = Problem([0, 4, 0], [0, 0, 1], [2, 2, 3])
    plan = solve(problem, get("homosize", variant="paper"))
    assert (plan.peak, plan.offsets.tolist()) == (4, [0, 0, 0])


@pytest.mark.parametrize("seed", range(20))
def test_first_fit_in_the_order_of_addresses_never_raises_a_tensor(seed: int) -> None:
    problem = random_lifetimes(80, seed=seed)
    plan = place_in_objects(problem, "size", "best")
    sunk = place(problem, np.argsort(address_order(problem, plan.offsets)))
    assert (sunk.offsets <= plan.offsets).all()


def test_every_order_holds_every_block_once() -> None:
    for seed in range(30):
        problem = random_problem(Random(seed), Safety.LIFETIMES, (0, 12))
        for _, order in structured_orders(problem, lifetime_bound(problem)):
            assert sorted(order.tolist()) == list(range(problem.blocks.count))


def test_the_tightest_step_comes_first_then_layers_by_size() -> None:
    # bytes        step 0 1 2 3
    #   9  a a . d
    #   8  a a . d     live: 9 13 7 11. Tight is step 1 with a, b, c; then d.
    problem = Problem([7, 2, 4, 9, 3], [0, 0, 1, 3, 2], [2, 4, 2, 4, 3],
                      phase_start=[0, 0, 1, 1, 1], phase_end=[0, 1, 1, 1, 1])  # fmt: skip
    orders = {
        name: order.tolist() for name, order in structured_orders(problem, lifetime_bound(problem))
    }
    assert orders["layers"] == [0, 2, 1, 3, 4]
    assert orders["areas"] == [0, 1, 2, 3, 4]
    assert orders["groups"] == [0, 1, 2, 3, 4]


def test_ctrl_c_keeps_the_best_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_lifetimes(200, seed=4)
    interrupt_after(monkeypatch, attempts=5)
    result = run(get("homosize"), problem)
    assert (result.status, result.reason) == (Status.FEASIBLE, "interrupted")
    assert result.statistics["interrupted"] is True


def test_a_node_limit_counts_attempts() -> None:
    problem = random_lifetimes(200, seed=4)
    result = run(get("homosize"), problem, Budget(node_limit=2))
    assert result.statistics["attempts"] == 2


def test_a_training_run_is_planned_at_its_bound_by_the_first_order() -> None:
    problem = with_phases(training_trace(3000, seed=3), 300)
    result = run(get("homosize"), problem, bounds=bounds_of(problem))
    assert (result.status, result.statistics["attempts"]) == (Status.OPTIMAL, 1)
    assert result.statistics["order"] == "layers"


@given(problem=problems((0, 10), safeties=(Safety.LIFETIMES,)), seed=st.integers(0, 3))
def test_either_variant_gives_the_same_plan_again(problem: Problem, seed: int) -> None:
    for variant in ("best", "paper"):
        first, second = (
            run(get("homosize", variant=variant), problem, Budget(seed=seed)) for _ in range(2)
        )
        assert first.status is second.status
        assert (first.plan is None) == (second.plan is None)
        if first.plan is not None and second.plan is not None:
            assert first.plan.offsets.tolist() == second.plan.offsets.tolist()
