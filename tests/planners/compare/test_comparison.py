"""Several answers in one comparison: gaps, best rows, interrupts, and the table."""

from __future__ import annotations

import pytest

from planners import get
from planners.compare.comparison import Comparison, compare_planners
from planners.compare.report import (
    SortBy,
    comparison_table,
    is_best,
    notes,
    percent,
    sorted_rows,
)
from planners.model.budget import Budget
from planners.model.plan import Status
from planners.model.problem import Problem


def two_tensors(capacity: int | None = None) -> Problem:
    """Return a problem whose plans have a peak of 4, which is optimal, or 8."""
    return Problem(size=[4, 4], start=[0, 1], end=[1, 2], capacity=capacity)


def comparison(problem: Problem, patterns: list[str]) -> Comparison:
    return compare_planners(problem, [get(name) for name in patterns], Budget())


def test_gaps_are_against_the_best_plan_and_the_best_bound() -> None:
    rows = comparison(two_tensors(), ["naive", "greedy-size-first"]).rows
    assert [row.gap_to_best for row in rows] == [1.0, 0.0]
    assert [row.gap_to_bound for row in rows] == [1.0, 0.0]


def test_an_interrupt_that_a_planner_answers_still_ends_the_comparison() -> None:
    chosen = [get("naive"), get("greedy-size-first"), get("greedy-size-best")]
    started: list[str] = []
    answers = compare_planners(
        two_tensors(),
        chosen,
        Budget(),
        on_start=lambda _, label: started.append(label),
        is_interrupted=lambda: len(started) == 2,
    )
    assert answers.interrupted
    assert [row.result.status for row in answers.rows] == [Status.FEASIBLE, Status.OPTIMAL]
    assert answers.left_out == ("greedy-size-best",)


def test_no_plan_gives_no_best_and_no_gap() -> None:
    problem = Problem(size=[4], start=[0], end=[1], pinned={0: 0})
    nothing = comparison(problem, ["naive"])
    assert nothing.best is None
    assert nothing.rows[0].gap_to_best is None
    assert nothing.rows[0].gap_to_bound is None
    assert (
        "unsupported     -      -             -" in comparison_table(nothing, nothing.rows).plain()
    )
    assert notes(nothing, nothing.rows)[0].startswith("naive: unsupported, pinned tensors")


def test_a_plan_over_the_capacity_is_not_the_best() -> None:
    over = comparison(two_tensors(capacity=5), ["naive", "greedy-size-first"])
    assert [is_best(over, row) for row in over.rows] == [False, True]
    assert comparison(two_tensors(capacity=5), ["naive"]).best is None


def test_rows_without_a_value_come_last() -> None:
    problem = Problem(size=[4, 4], start=[0, 1], end=[1, 2], pinned={0: 4})
    rows = comparison(problem, ["naive", "greedy-size-first"]).rows
    for key in (SortBy.PEAK, SortBy.GAP, SortBy.STATUS):
        assert [row.label for row in sorted_rows(rows, key)] == ["greedy-size-first", "naive"]


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "-"), (0.0, "0 %"), (1e-12, "<0.001 %"), (1e-5, "0.001 %"), (0.0123456, "1.235 %"),
        (1.5, "150.0 %"), (12.0, "1,200.0 %"),
    ],
)  # fmt: skip
def test_percent(ratio: float | None, text: str) -> None:
    assert percent(ratio) == text


def test_a_narrow_terminal_gets_fewer_columns_and_whole_numbers() -> None:
    from rich.console import Console

    both = comparison(Problem(size=[10**9] * 2, start=[0, 1], end=[1, 2]), ["naive"])
    for width, human in ((120, True), (60, False)):
        console = Console(width=width, record=True, force_terminal=True)
        with console.capture() as capture:
            console.print(comparison_table(both, both.rows).rich(width))
        lines = capture.get().splitlines()
        assert ("1.863 GiB" in capture.get()) is human
        assert any("2,000,000,000" in line for line in lines)
