"""Run several planners on one problem, and hold their answers against each other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planners.judged_run import run
from planners.model.bounds import Bound, bounds_of
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.plan import Result, Status
from planners.model.problem import Problem
from planners.model.reference import Reference, reference_of
from planners.processes.planner_answer import OnError, plain_parameters
from planners.referee.judge import judge, settle
from planners.registry import ChosenPlanner

if TYPE_CHECKING:
    from planners.processes.isolated_planner import Isolation
    from planners.reorder.reordering import Reordering
import enum

from planners.text.byte_units import both_bytes

# Of the pairs with a tensor that has gaps each is looked at, some 15 ns long.
MAX_PAIRS_WITH_GAPS = 1 << 25


@dataclass(frozen=True, eq=False)
class ComparisonRow:
    """What one planner answered, beside the others."""

    # Planner and parameters, as written on the command line.
    label: str
    # Judged, also against the answers of the others.
    result: Result
    # ``peak / best peak - 1``; None without a valid plan, or where the ratio is not finite.
    gap_to_best: float | None

    @property
    def gap_to_bound(self) -> float | None:
        """``peak / lower_bound - 1``; None without a valid plan, or where it is not finite."""
        return _gap(_valid_peak(self.result), self.result.lower_bound)


@dataclass(frozen=True, eq=False)
class ReferenceRow:
    """What an allocator had reserved in the run that was recorded, beside the plans."""

    # Neither a plan nor judged.
    reference: Reference
    gap_to_bound: float | None
    gap_to_best: float | None
    # Whether less was reserved than was in use at once: the recording began when memory had been
    # reserved already, and does not know how much.
    below_lifetime_bound: bool = False


@dataclass(frozen=True, eq=False)
class Comparison:
    """What several planners answered on one problem."""

    problem: Problem
    # Lower bounds, computed once.
    bounds: tuple[Bound, ...]
    # Wall time of the safety relation, which all planners share, and of the bounds.
    safety_seconds: float
    bounds_seconds: float
    # One a planner that ran, in the order in which they were chosen.
    rows: tuple[ComparisonRow, ...]
    # Labels of the planners that an interrupt kept from running.
    left_out: tuple[str, ...] = ()
    # Whether Ctrl-C ended the comparison early.
    interrupted: bool = False
    # What an allocator had reserved in the run that was recorded, where the problem knows it.
    reference: Reference | None = None
    # Number of pairs of tensors that may not share bytes; None where counting takes too long.
    unsafe_pairs: int | None = None
    # Where the problem is one in another order: what that order saves.
    reordering: Reordering | None = None

    @property
    def unsafe_share(self) -> float | None:
        """Unsafe pairs among all pairs, from 0 to 1; None without pairs, or where not counted."""
        pairs = math.comb(self.problem.tensor_count, 2)
        return None if self.unsafe_pairs is None or not pairs else self.unsafe_pairs / pairs

    @property
    def reference_row(self) -> ReferenceRow | None:
        """The reference beside the bound and the best plan; None without one."""
        if self.reference is None:
            return None
        reserved = self.reference.reserved
        lifetime = next((bound.bytes for bound in self.bounds if bound.name == "lifetime"), 0)
        if reserved < lifetime:
            return ReferenceRow(self.reference, None, None, below_lifetime_bound=True)
        return ReferenceRow(
            self.reference,
            _gap(reserved, self.best_bound[0]),
            _gap(reserved, self.best.result.peak or 0) if self.best is not None else None,
        )

    @property
    def best_bound(self) -> tuple[int, str]:
        """The most bytes that are proven to be needed, and the certificate; 0 without one."""
        known = [(bound.bytes, bound.name) for bound in self.bounds]
        known += [
            (row.result.lower_bound, row.result.certificate)
            for row in self.rows
            if row.result.status not in (Status.INVALID, Status.UNSUPPORTED)
        ]
        return max(known, key=lambda bound: bound[0], default=(0, ""))

    @property
    def best(self) -> ComparisonRow | None:
        """The first row with the smallest peak of all valid plans that fit the capacity."""
        fitting = [
            row for row in self.rows if row.result.status in (Status.OPTIMAL, Status.FEASIBLE)
        ]
        return min(fitting, key=lambda row: row.result.peak or 0, default=None)


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
    results: list[Result] = []
    interrupted = False
    for index, planner in enumerate(chosen):
        try:
            on_start(index, planner.label)
            results.append(
                run(problem, planner, budget, bounds, isolation=isolation, on_error=on_error)
            )
        except KeyboardInterrupt:
            results.append(_lost(problem, planner, budget))
            interrupted = True
        # What a third party says ends nothing.
        interrupted |= is_interrupted() or (planner.info.built_in and results[-1].interrupted)
        if interrupted:
            break
    labels = [planner.label for planner in chosen]
    settled = settle(problem, labels[: len(results)], results)
    return Comparison(
        problem,
        tuple(bounds),
        safety_done - started,
        bounds_done - safety_done,
        _as_rows(labels, settled),
        tuple(labels[len(results) :]),
        interrupted,
        reference,
        unsafe_pairs,
        reordering,
    )


def _count_quickly(problem: Problem) -> int | None:
    """Count the unsafe pairs; None where each tensor with gaps against all others takes long."""
    with_gaps = len(np.unique(problem.gaps[:, 0]))
    if with_gaps * problem.tensor_count > MAX_PAIRS_WITH_GAPS:
        return None
    return int(problem.core.unsafe_degrees().sum()) // 2


def _as_rows(labels: Sequence[str], results: Sequence[Result]) -> tuple[ComparisonRow, ...]:
    peaks = [_valid_peak(result) for result in results]
    best = min((peak for peak in peaks if peak is not None), default=0)
    return tuple(
        ComparisonRow(label, result, _gap(peak, best))
        for label, result, peak in zip(labels, results, peaks, strict=False)
    )


def _valid_peak(result: Result) -> int | None:
    return result.peak if result.valid else None


def _gap(peak: int | None, reference: int) -> float | None:
    if peak is None or (reference == 0 and peak > 0):
        return None
    return 0.0 if reference == 0 else peak / reference - 1


def _lost(problem: Problem, planner: ChosenPlanner, budget: Budget) -> Result:
    return replace(
        judge(problem, Findings(reason="interrupted", interrupted=True)),
        planner=planner.info.name,
        parameters=plain_parameters({**planner.info.defaults, **planner.parameters}),
        seed=budget.seed,
    )


class Answer(enum.Enum):
    """What several planners together say of a capacity."""

    FITS = "fits"
    DOES_NOT_FIT = "does_not_fit"
    NOT_KNOWN = "not_known"


@dataclass(frozen=True)
class Verdict:
    """An answer, and what it stands on."""

    answer: Answer
    # The planner whose plan shows that it fits, or the certificate that proves that it does not;
    # empty where nothing is known.
    by: str
    # The peak, the proof, or what is missing, in words.
    because: str


def verdict_of(comparison: Comparison) -> Verdict | None:
    """Return whether a plan fits, as far as a comparison knows."""
    capacity = comparison.problem.capacity
    if capacity is None:
        return None
    best = comparison.best
    if best is not None:
        assert best.result.peak is not None
        return Verdict(Answer.FITS, best.label, f"peak {both_bytes(best.result.peak)}")
    bound, certificate = comparison.best_bound
    if bound > capacity:
        return Verdict(Answer.DOES_NOT_FIT, certificate, f"at least {both_bytes(bound)} are needed")
    for row in comparison.rows:
        if row.result.status is Status.INFEASIBLE:
            return Verdict(Answer.DOES_NOT_FIT, row.result.certificate, row.result.reason)
    peaks = [row.result.peak for row in comparison.rows if row.result.valid]
    least = min((peak for peak in peaks if peak is not None), default=None)
    found = "no plan was found" if least is None else f"the best plan needs {both_bytes(least)}"
    proven = f"no more than {both_bytes(bound)} is proven to be needed"
    return Verdict(Answer.NOT_KNOWN, "", f"{found}, and {proven}")
