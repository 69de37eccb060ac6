"""Traps: the optimum is met by the known plan, and the trapped planners end where the Note says."""

from __future__ import annotations

import numpy as np
import pytest

from instances.synthetic import best_fit_trap, first_fit_trap, size_order_trap
from instances.synthetic.best_fit_traps import splinter_in_rounds
from instances.synthetic.first_fit_traps import fragment_in_rounds
from instances.synthetic.size_order_traps import paths_of_four
from instances.synthetic.sizes import UNIT_BYTES
from planners import InstanceError, Plan, Problem, check, place
from planners.model.bounds import lifetime_bound
from tests.planners.exact.brute_force import optimal_peak


def require_optimum(problem: Problem, offset: np.ndarray) -> int:
    """The known plan is valid, and as high as the most bytes alive; return that in units."""
    plan = Plan.of(problem, offset)
    check(problem, plan)
    assert plan.peak == lifetime_bound(problem).bytes == problem.origin["optimum"]
    return plan.peak // UNIT_BYTES


def units(problem: Problem, order: str, fit: str) -> int:
    return place(problem, order, fit).peak // UNIT_BYTES


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 6])
def test_both_fits_fall_into_the_first_fit_trap(rounds: int) -> None:
    problem = first_fit_trap(rounds)
    half = 2 ** (2 * rounds - 1)
    assert require_optimum(problem, fragment_in_rounds(rounds).offset) == 2 * half
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
    problem = best_fit_trap(rounds)
    width = rounds**2
    optimum = require_optimum(problem, splinter_in_rounds(rounds).offset)
    assert optimum == 2 * width + 3 * rounds - 2
    assert problem.tensor_count == 3 * rounds + 1
    trapped = (rounds + 1) * width + rounds * (rounds + 1) // 2
    assert units(problem, "source", "best") == trapped
    assert units(problem, "source", "first") < 2 * optimum


@pytest.mark.parametrize(("copies", "least"), [(1, 4), (1, 4096), (7, 100)])
def test_both_fits_fall_into_the_size_order_trap(copies: int, least: int) -> None:
    problem = size_order_trap(copies, units=least)
    optimum = require_optimum(problem, paths_of_four(copies, least).offset)
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
