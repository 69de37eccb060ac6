"""Several answers in one comparison: gaps, best rows, interrupts, the table, the unsafe share."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from planners import Plan, Safety, get
from planners.compare import report
from planners.compare.comparison import MAX_PAIRS_WITH_GAPS, Comparison, compare_planners
from planners.model.budget import Budget
from planners.model.plan import Status
from planners.model.problem import Problem
from planners.referee.naive import find_violation
from planners.testing.random_problems import random_problem


def two_tensors(capacity: int | None = None) -> Problem:
    """Return a problem whose plans have a peak of 4, which is optimal, or 8."""
    return Problem(size=[4, 4], start=[0, 1], end=[1, 2], capacity=capacity)


def comparison(problem: Problem, patterns: list[str]) -> Comparison:
    return compare_planners(problem, [get(name) for name in patterns], Budget())


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
        "unsupported     -      -             -"
        in report.comparison_table(nothing, nothing.rows).plain()
    )
    assert report.notes(nothing, nothing.rows)[0].startswith("naive: unsupported, pinned tensors")


def test_a_plan_over_the_capacity_is_not_the_best() -> None:
    over = comparison(two_tensors(capacity=5), ["naive", "greedy-size-first"])
    assert [report.is_best(over, row) for row in over.rows] == [False, True]
    assert comparison(two_tensors(capacity=5), ["naive"]).best is None


def test_rows_without_a_value_come_last() -> None:
    problem = Problem(size=[4, 4], start=[0, 1], end=[1, 2], pinned={0: 4})
    compared = comparison(problem, ["naive", "greedy-size-first"])
    for key in (report.SortBy.PEAK, report.SortBy.GAP, report.SortBy.STATUS):
        assert [row.label for row in report.sorted_rows(compared, key)] == [
            "greedy-size-first",
            "naive",
        ]


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "-"), (0.0, "0 %"), (1e-12, "<0.001 %"), (1e-5, "0.001 %"), (0.0123456, "1.235 %"),
        (1.5, "150.0 %"), (12.0, "1,200.0 %"),
    ],
)  # fmt: skip
def test_percent(ratio: float | None, text: str) -> None:
    assert report.percent(ratio) == text


def test_a_narrow_terminal_gets_fewer_columns_and_whole_numbers() -> None:
    from rich.console import Console

    both = comparison(Problem(size=[10**9] * 2, start=[0, 1], end=[1, 2]), ["naive"])
    for width, human in ((120, True), (60, False)):
        console = Console(width=width, record=True, force_terminal=True)
        with console.capture() as capture:
            console.print(report.comparison_table(both, both.rows).rich(width))
        lines = capture.get().splitlines()
        assert ("1.863 GiB" in capture.get()) is human
        assert any("2,000,000,000" in line for line in lines)


def unsafe_pairs(problem: Problem) -> int:
    """Lay two tensors over each other, all others apart, and let the referee object."""
    tensors = problem.tensor_count
    bare = Problem(
        np.ones(tensors, dtype=np.int64),
        *((problem.start, problem.end) if problem.safety is Safety.LIFETIMES else ()),
        graph=problem.graph,
        unsafe_pairs=problem.unsafe_pairs,
        gaps=problem.gaps,
    )
    objections = 0
    for a in range(tensors):
        for b in range(a):
            offsets = np.arange(tensors)
            offsets[a] = offsets[b]
            objections += find_violation(bare, Plan.of(bare, offsets)) is not None
    return objections


@pytest.mark.parametrize("safety", Safety)
def test_the_share_is_what_the_referee_objects_to(safety: Safety) -> None:
    rng = Random(13)
    shares = set()
    for _ in range(40):
        problem = random_problem(rng, safety, (2, 8))
        share = comparison(problem, ["naive"]).unsafe_share
        pairs = problem.tensor_count * (problem.tensor_count - 1) // 2
        assert share == unsafe_pairs(problem) / pairs
        shares.add(share)
    assert len(shares) > 5


@pytest.mark.parametrize("tensors", [0, 1])
def test_without_pairs_there_is_no_share(tensors: int) -> None:
    alone = comparison(Problem([1] * tensors, [0] * tensors, [1] * tensors), ["naive"])
    assert alone.unsafe_share is None
    assert "pairs" not in report.instance_line(alone)


def test_lifetimes_take_no_matrix() -> None:
    tensors = 400_000  # 80 GB as a byte a pair, 20 GB as a bit
    start = np.arange(tensors)
    comparison = compare_planners(
        Problem(np.ones(tensors, dtype=np.int64), start, start + 2), [], Budget()
    )
    assert comparison.unsafe_pairs == tensors - 1
    assert "chains; <0.001 % of pairs unsafe; naive" in report.instance_line(comparison)


def test_gaps_of_very_many_are_not_counted() -> None:
    tensors = int(MAX_PAIRS_WITH_GAPS**0.5) + 1
    rows = [(tensor, 1, 2) for tensor in range(tensors)]
    ones = np.ones(tensors, dtype=np.int64)
    start = np.zeros(tensors, dtype=np.int64)
    comparison = compare_planners(Problem(ones, start, start + 3, gaps=rows), [], Budget())
    assert comparison.unsafe_share is None
    assert "pairs" not in report.instance_line(comparison)
