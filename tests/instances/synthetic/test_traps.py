"""Traps: the optimum is met by the known plan, and the trapped planners end where the Note says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from instances.synthetic import best_fit_trap, first_fit_trap, size_order_trap
from instances.synthetic.family import UNIT_BYTES
from planners import InstanceError, Problem, place
from planners.model.bounds import lifetime_bound
from tests.instances.synthetic.known_plans import with_plan
from tests.planners.exact.brute_force import optimal_peak


def with_optimum(trap: Callable[..., Problem], *size: int, **options: int) -> tuple[Problem, int]:
    """Return a trap and its optimum in units: the peak of the known plan and the live peak."""
    problem = with_plan(trap, *size, **options)[0]
    optimum = int(problem.origin["optimum"])
    assert optimum == lifetime_bound(problem).bytes
    return problem, optimum // UNIT_BYTES


def units(problem: Problem, order: str, fit: str) -> int:
    return place(problem, order, fit).peak // UNIT_BYTES


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 6])
def test_both_fits_fall_into_the_first_fit_trap(rounds: int) -> None:
    problem, optimum = with_optimum(first_fit_trap, rounds)
    half = 2 ** (2 * rounds - 1)
    assert optimum == 2 * half
    assert problem.tensor_count == 3 * half - half // 2**rounds
    trapped = 2 * half + rounds * half - 2**rounds + 1
    assert units(problem, "source", "first") == trapped
    assert units(problem, "source", "best") == trapped


def test_the_first_fit_trap_grows_without_end() -> None:
    ratios = []
    for rounds in (2, 4, 6):
        problem = first_fit_trap(rounds)
        ratios.append(place(problem, "source", "first").peak / int(problem.origin["optimum"]))
    assert ratios[0] < ratios[1] < ratios[2]
    assert ratios[2] > 3.9


@pytest.mark.parametrize("rounds", [2, 3, 10, 40, 100])
def test_best_fit_alone_falls_into_its_trap(rounds: int) -> None:
    problem, optimum = with_optimum(best_fit_trap, rounds)
    width = rounds**2
    assert optimum == 2 * width + 3 * rounds - 2
    assert problem.tensor_count == 3 * rounds + 1
    trapped = (rounds + 1) * width + rounds * (rounds + 1) // 2
    assert units(problem, "source", "best") == trapped
    assert units(problem, "source", "first") < 2 * optimum


@pytest.mark.parametrize(("copies", "least"), [(1, 4), (1, 4096), (7, 100)])
def test_both_fits_fall_into_the_size_order_trap(copies: int, least: int) -> None:
    problem, optimum = with_optimum(size_order_trap, copies, units=least)
    assert optimum == 2 * least + 4
    assert units(problem, "size", "first") == units(problem, "size", "best") == 3 * least + 4
    assert units(problem, "source", "first") == optimum


def test_brute_force_agrees_where_it_can() -> None:
    for problem in (first_fit_trap(1), best_fit_trap(2), size_order_trap(2)):
        assert optimal_peak(problem) == problem.origin["optimum"]


@pytest.mark.parametrize(
    ("trap", "size"),
    [(first_fit_trap, 0), (first_fit_trap, 9), (best_fit_trap, 1), (size_order_trap, 0)],
)
def test_a_trap_of_no_size_is_refused(trap: object, size: int) -> None:
    assert callable(trap)
    with pytest.raises(InstanceError, match=rf"(rounds|copies): .* needed, found {size}"):
        trap(size)
