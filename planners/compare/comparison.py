"""Runs several planners on one problem, compares their answers, and judges its capacity."""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from planners.answers.planner_answer import OnError
from planners.judged_run import answer_with, answered
from planners.model.bounds import Bound, bounds_of
from planners.model.budget import Budget
from planners.model.findings import Findings, PlannerAnswer
from planners.model.plan import Result, Status, gap_above
from planners.model.problem import Problem
from planners.model.reference import Reference, reference_of
from planners.referee.judge import judge_all
from planners.registry import ChosenPlanner
from planners.text.byte_units import both_bytes

if TYPE_CHECKING:
    from planners.answers.isolated_planner import Isolation
    from planners.reorder.reordering import Reordering

# Limits the pairs that are counted one by one, because one of their tensors has gaps. A pair takes
# some 15 ns.
MAX_PAIRS_WITH_GAPS = 1 << 25


@dataclass(frozen=True, eq=False)
class ComparisonRow:
    """The answer of one planner, with its distance from the best answer."""

    # Planner and parameters, as written on the command line.
    label: str
    # The result after the judge has compared it with the results of all other planners.
    result: Result
    # ``peak / best peak - 1``; None without a valid plan, or if the ratio is not finite.
    gap_to_best: float | None

    @property
    def gap_to_bound(self) -> float | None:
        """``peak / lower_bound - 1``; None without a valid plan, or if it is infinite."""
        return gap_above(_valid_peak(self.result), self.result.lower_bound)

    @property
    def gap_to_cost_bound(self) -> float | None:
        """``cost / cost_bound - 1`` of a valid plan; None without, or if it is infinite."""
        return gap_above(self.result.cost if self.result.valid else None, self.result.cost_bound)


@dataclass(frozen=True, eq=False)
class ReferenceRow:
    """The bytes that the allocator of a recorded run had reserved, to compare with the plans."""

    reference: Reference
    gap_to_bound: float | None
    gap_to_best: float | None
    # True if the recording shows fewer reserved bytes than live bytes. Then the recording began
    # after the allocator had reserved memory.
    below_lifetime_bound: bool = False


class Answer(enum.Enum):
    """The answer of all planners together to the question whether the problem fits."""

    FITS = "fits"
    DOES_NOT_FIT = "does_not_fit"
    NOT_KNOWN = "not_known"


@dataclass(frozen=True)
class CapacityVerdict:
    """An answer, and its evidence."""

    answer: Answer
    # The planner whose plan fits, or the certificate that proves that no plan fits; empty if
    # neither is known.
    by: str
    # One sentence for people: the peak, the proof, or both limits of the open range.
    because: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """The answers of several planners on one problem."""

    problem: Problem
    # The lower bounds that all planners share.
    bounds: tuple[Bound, ...]
    # Wall seconds that the shared safety relation took, and the bounds.
    safety_seconds: float
    bounds_seconds: float
    # One row for each planner that ran, in the order in which the user named them.
    rows: tuple[ComparisonRow, ...]
    # Labels of the planners that did not run because Ctrl-C came before.
    left_out: tuple[str, ...] = ()
    # True if Ctrl-C ended the comparison early.
    interrupted: bool = False
    # The bytes that the allocator of the recorded run had reserved; None if nobody recorded them.
    reference: Reference | None = None
    # Number of pairs of tensors that may not share bytes; None if counting takes too long.
    unsafe_pairs: int | None = None
    # The search that changed the order of the graph; None if the problem has its own order.
    reordering: Reordering | None = None

    @property
    def unsafe_share(self) -> float | None:
        """Unsafe pairs among all pairs, from 0 to 1; None without pairs, or if not counted."""
        pairs = math.comb(self.problem.tensor_count, 2)
        return None if self.unsafe_pairs is None or not pairs else self.unsafe_pairs / pairs

    @property
    def reference_row(self) -> ReferenceRow | None:
        """The reference with its gaps to the bound and to the best plan, or None."""
        if self.reference is None:
            return None
        reserved = self.reference.reserved
        lifetime = next((bound.bytes for bound in self.bounds if bound.name == "lifetime"), 0)
        if reserved < lifetime:
            return ReferenceRow(self.reference, None, None, below_lifetime_bound=True)
        return ReferenceRow(
            self.reference,
            gap_above(reserved, self.best_bound[0]),
            gap_above(reserved, self.best.result.peak or 0) if self.best is not None else None,
        )

    @property
    def best_bound(self) -> tuple[int, str]:
        """The largest proven lower bound in bytes, and its certificate; 0 if nothing is proven."""
        known = [(bound.bytes, bound.name) for bound in self.bounds]
        known += [
            (row.result.lower_bound, row.result.certificate)
            for row in self.rows
            if row.result.status not in (Status.INVALID, Status.UNSUPPORTED)
        ]
        return max(known, key=lambda bound: bound[0], default=(0, ""))

    @property
    def best(self) -> ComparisonRow | None:
        """The first of the best rows with a valid plan within the capacity, see :meth:`rank_of`."""
        fitting = [
            row for row in self.rows if row.result.status in (Status.OPTIMAL, Status.FEASIBLE)
        ]
        return min(fitting, key=self.rank_of, default=None)

    def rank_of(self, row: ComparisonRow) -> int:
        """Return the cost or the peak of a row with a plan; the lower, the better."""
        result = row.result
        return (result.cost if self.problem.cost_decides else result.peak) or 0

    @cached_property
    def verdict(self) -> CapacityVerdict | None:
        """Whether the problem fits its capacity; None if it has none."""
        capacity = self.problem.capacity
        if capacity is None:
            return None
        best = self.best
        if best is not None:
            assert best.result.peak is not None
            return CapacityVerdict(Answer.FITS, best.label, f"peak {both_bytes(best.result.peak)}")
        bound, certificate = self.best_bound
        if bound > capacity:
            return CapacityVerdict(
                Answer.DOES_NOT_FIT, certificate, f"at least {both_bytes(bound)} are needed"
            )
        for row in self.rows:
            if row.result.status is Status.INFEASIBLE:
                return CapacityVerdict(
                    Answer.DOES_NOT_FIT, row.result.certificate, row.result.reason
                )
        peaks = [row.result.peak for row in self.rows if row.result.valid]
        least = min((peak for peak in peaks if peak is not None), default=None)
        found = "no plan was found" if least is None else f"the best plan needs {both_bytes(least)}"
        proven = f"no more than {both_bytes(bound)} is proven to be needed"
        return CapacityVerdict(Answer.NOT_KNOWN, "", f"{found}, and {proven}")


def compare_planners(
    problem: Problem,
    chosen: Sequence[ChosenPlanner],
    budget: Budget,
    *,
    on_start: Callable[[int, str], None] = lambda _index, _label: None,
    is_interrupted: Callable[[], bool] = lambda: False,
    isolation: Isolation | None = None,
    on_error: OnError = lambda _error: None,
    reordering: Reordering | None = None,
) -> Comparison:
    """Run planners one after the other, each within the same budget."""
    reference = reference_of(problem)
    started = time.perf_counter()
    _ = problem.core
    safety_done = time.perf_counter()
    limit = budget.time_limit_seconds
    bounds = bounds_of(problem) if limit is None else bounds_of(problem, limit)
    bounds_done = time.perf_counter()
    unsafe_pairs = _count_quickly(problem)
    answers: list[PlannerAnswer] = []
    interrupted = False
    for index, planner in enumerate(chosen):
        try:
            on_start(index, planner.label)
            answers.append(
                answered(problem, planner, budget, isolation=isolation, on_error=on_error)
            )
        except KeyboardInterrupt:
            lost = Findings(reason="interrupted", interrupted=True)
            answers.append(answer_with(planner, budget, lost))
            interrupted = True
        # A third party's planner may falsely report an interrupt, so its report is ignored.
        is_told = planner.info.built_in and answers[-1].found.interrupted
        interrupted |= is_interrupted() or is_told
        if interrupted:
            break
    return Comparison(
        problem,
        tuple(bounds),
        safety_done - started,
        bounds_done - safety_done,
        _as_rows(answers, judge_all(problem, answers, bounds)),
        tuple(planner.label for planner in chosen[len(answers) :]),
        interrupted,
        reference,
        unsafe_pairs,
        reordering,
    )


def _count_quickly(problem: Problem) -> int | None:
    """Return the number of unsafe pairs, or None if the tensors with gaps make counting slow."""
    with_gaps = len(np.unique(problem.gaps[:, 0]))
    if with_gaps * problem.tensor_count > MAX_PAIRS_WITH_GAPS:
        return None
    return int(problem.core.unsafe_degrees().sum()) // 2


def _as_rows(
    answers: Sequence[PlannerAnswer], results: Sequence[Result]
) -> tuple[ComparisonRow, ...]:
    peaks = [_valid_peak(result) for result in results]
    best = min((peak for peak in peaks if peak is not None), default=0)
    return tuple(
        ComparisonRow(answer.label, result, gap_above(peak, best))
        for answer, result, peak in zip(answers, results, peaks, strict=True)
    )


def _valid_peak(result: Result) -> int | None:
    return result.peak if result.valid else None
