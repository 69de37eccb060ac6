"""The planner: what either variant plans, refuses and reaches."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from instances.synthetic import (
    best_fit_trap,
    first_fit_trap,
    guillotine_packing,
    non_guillotine_packing,
    random_lifetimes,
    size_order_trap,
    training_graph,
    training_trace,
)
from planners import Problem, Safety, Status, bounds_of, check, get, place, run
from planners.dynamic.static_part import static_part
from planners.greedy.place import place_in_objects
from planners.homosize.requests import static_requests
from planners.homosize.structured_orders import address_order, structured_orders
from planners.judged_run import solve
from planners.model.bounds import lifetime_bound
from planners.model.problem import Scalar
from planners.registry import planners
from planners.testing.random_problems import random_problem

PAPER = ({}, {"phases": False}, {"fusion": False})
READINGS: tuple[dict[str, Scalar], ...] = (
    *PAPER, {"leftover": "group"}, {"acceptance": "product"}, {"least_product": 0.7},
    {"layers_too": True},
)  # fmt: skip
GREEDY = "greedy-*,many-objects-*,pressure"


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


@pytest.mark.parametrize("seed", range(12))
def test_the_better_of_groups_and_layers_alone(seed: int) -> None:
    problem = phased(seed)
    with_groups, layers_alone, better = (
        solve(problem, get("homosize", variant="paper", **parameters)).peak
        for parameters in ({}, {"phases": False}, {"layers_too": True})
    )
    assert better == min(with_groups, layers_alone)


PROBLEMS = [
    *map(phased, range(24)),
    *(with_phases(guillotine_packing(80, seed=seed), 40) for seed in (0, 1, 2, 5, 30, 47, 52)),
    *(with_phases(non_guillotine_packing(8, seed=seed), 40) for seed in (0, 1, 3, 9)),
    *(with_phases(trap, 16) for trap in (best_fit_trap(8), first_fit_trap(3), size_order_trap(6))),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_never_worse_than_the_paper_nor_than_greedy(problem: Problem) -> None:
    """Of these problems now one and now another planner is best."""
    best = solve(problem, get("homosize"))
    check(problem, best)
    for parameters in PAPER:
        published = solve(problem, get("homosize", variant="paper", **parameters))
        check(problem, published)
        assert best.peak <= published.peak
    for info in planners(GREEDY):
        assert best.peak <= solve(problem, get(info.name)).peak, info.name


@pytest.mark.parametrize(
    ("problem", "length", "order"),
    [
        (non_guillotine_packing(16, seed=0), 20, "areas"),
        (guillotine_packing(80, seed=5), 64, "groups"),
        (non_guillotine_packing(8, seed=6), 20, "published"),
        (non_guillotine_packing(16, seed=5), 64, "published, no fusion"),
        (guillotine_packing(80, seed=2), 20, "published, no phases"),
        (guillotine_packing(80, seed=5), 20, "greedy-size-first"),
        (guillotine_packing(40, seed=0), 20, "1.0: longest"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_part_is_the_best_somewhere(problem: Problem, length: int, order: str) -> None:
    result = run(with_phases(problem, length), get("homosize"))
    assert (result.status, result.statistics["found_by"]) == (Status.FEASIBLE, order)


@pytest.mark.parametrize("seed", range(60))
def test_the_published_planner_on_random_problems(seed: int) -> None:
    problem = random_problem(Random(seed), Safety.LIFETIMES, (0, 12))
    for parameters in READINGS:
        result = run(problem, get("homosize", variant="paper", **parameters))
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
def test_the_published_planner_refuses_conditions_that_it_does_not_know(
    problem: Problem, reason: str
) -> None:
    result = run(problem, get("homosize", variant="paper"))
    assert (result.status is Status.UNSUPPORTED) == bool(reason), result.reason
    assert reason in result.reason


def test_the_default_refuses_explicit_pairs_alone() -> None:
    result = run(Problem([1, 2], unsafe_pairs=[(0, 1)]), get("homosize"))
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
    statistics = run(problem, get("homosize", variant="paper")).statistics
    assert set(statistics) == {"groups", "fusions", "layers", "inserted"}
    assert statistics["groups"] > 0
    layers_alone = run(problem, get("homosize", variant="paper", phases=False)).statistics
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
    static = static_part(problem)
    alone = solve(static.problem, get("homosize", variant="paper"))
    whole = solve(problem, get("homosize", variant="paper"))
    assert static.plan_within(whole).offsets.tolist() == alone.offsets.tolist()
    assert static_requests(problem).tensor.tolist() == static.tensors.tolist()


def test_dynamic_requests_come_as_they_are_allocated_into_the_smallest_gap() -> None:
    # bytes
    #   8      . . e e     The static plan is a, and b on top of it, which soon dies. Of the dynamic
    #   7      b . e e     requests d comes first, though it is the smaller one, and lies where b
    #   6      b d d d     was; e finds a byte of b's left, and reaches above it.
    #   0 - 5  a a a a
    problem = Problem([6, 2, 1, 2], [0, 0, 1, 2], [4, 1, 4, 4],
                      dynamic=[False, False, True, True])  # fmt: skip
    offsets = solve(problem, get("homosize", variant="paper")).offsets.tolist()
    assert offsets == [0, 6, 6, 7]


@pytest.mark.parametrize("seed", range(20))
def test_first_fit_in_the_order_of_addresses_never_raises_a_tensor(seed: int) -> None:
    problem = random_lifetimes(80, seed=seed)
    plan = place_in_objects(problem, "size", "best")
    sunk = place(problem, np.argsort(address_order(problem, plan.offsets)))
    assert (sunk.offsets <= plan.offsets).all()


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        # Live bytes by step: 9 13 7 11. Tight is step 1 with tensors 0, 1 and 2; then comes 3.
        (Problem([7, 2, 4, 9, 3], [0, 0, 1, 3, 2], [2, 4, 2, 4, 3],
                 phase_start=[0, 0, 1, 1, 1], phase_end=[0, 1, 1, 1, 1]),
         {"layers": [0, 2, 1, 3, 4], "areas": [0, 1, 2, 3, 4], "groups": [0, 1, 2, 3, 4]}),
        # Steps 0 and 2 are equally tight; the bound names the first of them alone.
        (Problem([4, 1, 3, 2, 3], [0, 0, 1, 2, 2], [1, 1, 2, 3, 3]),
         {"layers": [0, 1, 2, 4, 3], "areas": [0, 4, 3, 1, 2]}),
        # One tight step: the group of 1 and 2 has eight byte-steps there, that of 0 has five.
        (Problem([5, 2, 2], [1, 0, 0], [2, 2, 2], phase_start=[1, 0, 0], phase_end=[1, 1, 1]),
         {"layers": [0, 1, 2], "areas": [0, 1, 2], "groups": [1, 2, 0]}),
    ],
    ids=["layers by size", "every tightest step", "groups by byte-steps"],
)  # fmt: skip
def test_structured_orders(problem: Problem, expected: dict[str, list[int]]) -> None:
    found = structured_orders(problem, lifetime_bound(problem))
    assert {name: order.tolist() for name, order in found} == expected


def test_a_training_run_is_planned_at_its_bound_by_the_first_order() -> None:
    problem = with_phases(training_trace(3000, seed=3), 300)
    result = run(problem, get("homosize"), bounds=bounds_of(problem))
    assert (result.status, result.statistics["attempts"]) == (Status.OPTIMAL, 1)
    assert result.statistics["found_by"] == "layers"
