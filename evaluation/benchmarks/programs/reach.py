"""What planned memory is to reach in every program, and whether it does."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from evaluation.benchmarks.programs.program_list import Program
from evaluation.benchmarks.programs.program_result import ProgramResult
from evaluation.benchmarks.programs.program_study import ProgramFindings
from gpu_runtime.training.run_specification import JUDGED, Allocator

NATIVE = (Allocator.DEFAULT, Allocator.EXPANDABLE)

# Times those of the better one of PyTorch's own.
MOST_STEP = 1.005
MOST_WORST_STEP = 1.1


@dataclass(frozen=True)
class AllocatorFigures:
    """A program under one allocator, over all its turns."""

    # Peaks.
    reserved: int
    allocated: int
    # The median of all steps, that of each turn's, and the slowest.
    step_seconds: float
    turn_seconds: tuple[float, ...]
    worst_seconds: float
    fallback_share: float | None

    @property
    def spread(self) -> float:
        """By how much the slowest turn exceeds the fastest."""
        return max(self.turn_seconds) / min(self.turn_seconds) - 1


def figures_of(findings: ProgramFindings, allocator: Allocator) -> AllocatorFigures | None:
    """Return the figures; none where a run failed, or nobody counted bytes."""
    result = findings.timed(allocator)
    if result is None or result.peaks is None:
        return None
    every = [seconds for turn in result.step_seconds for seconds in turn]
    return AllocatorFigures(
        result.peaks.reserved,
        result.peaks.allocated,
        statistics.median(every),
        tuple(map(statistics.median, result.step_seconds)),
        max(every),
        result.fallback_share,
    )


@dataclass(frozen=True)
class ProgramFigures:
    """A program under every allocator of which there are figures."""

    program: Program
    findings: ProgramFindings
    by_allocator: dict[Allocator, AllocatorFigures]

    @classmethod
    def of(cls, program: Program, findings: ProgramFindings) -> ProgramFigures:
        """Return the figures of what was found."""
        known = {its: figures_of(findings, its) for its in Allocator}
        return cls(program, findings, {its: one for its, one in known.items() if one is not None})

    @property
    def planned(self) -> AllocatorFigures | None:
        """Figures of ours."""
        return self.by_allocator.get(Allocator.PLANNED)

    @property
    def live(self) -> int | None:
        """Peak of allocated bytes, under the allocator that rounds requests up least."""
        judged = [self.by_allocator[its] for its in JUDGED if its in self.by_allocator]
        return min((figures.allocated for figures in judged), default=None)

    @property
    def faster_native(self) -> AllocatorFigures | None:
        """The one of PyTorch's own whose median step is shorter."""
        native = [self.by_allocator[its] for its in NATIVE if its in self.by_allocator]
        return min(native, key=lambda one: one.step_seconds, default=None)

    @property
    def step_ratio(self) -> float | None:
        """Our median step to that of the faster native."""
        return self.step_ratio_of(Allocator.PLANNED)

    def step_ratio_of(self, allocator: Allocator) -> float | None:
        """Return a median step to the faster native: the median of what it is in each turn."""
        ours, theirs = self.by_allocator.get(allocator), self.faster_native
        if ours is None or theirs is None:
            return None
        pairs = zip(ours.turn_seconds, theirs.turn_seconds, strict=True)
        return statistics.median(mine / native for mine, native in pairs)

    def best_of_native(self, of: Callable[[AllocatorFigures], float]) -> float | None:
        """Return the smallest figure of PyTorch's own; none where neither has one."""
        native = [self.by_allocator[its] for its in NATIVE if its in self.by_allocator]
        return min(map(of, native), default=None)

    def to_native(self, of: Callable[[AllocatorFigures], float]) -> float | None:
        """Return our figure to the smallest of PyTorch's own."""
        best = self.best_of_native(of)
        return of(self.planned) / best if self.planned and best else None


@dataclass(frozen=True)
class Verdict:
    """Whether a line of the reach holds for a program, and by what."""

    holds: bool
    found: str
    # A program that has no such limit counts nowhere.
    is_judged: bool = True


def reserves_no_more(figures: ProgramFigures) -> Verdict:
    """Judge the reserved bytes beside the better of PyTorch's own."""
    return _at_most(figures.to_native(lambda one: one.reserved), 1.0)


def stays_near_live(figures: ProgramFigures) -> Verdict:
    """Judge the reserved bytes beside live ones.

    What PyTorch's graphs use lies in private pools: it is nobody's to plan, and not live by
    PyTorch's counting.
    """
    if figures.program.has_private_pool:
        return PRIVATE_POOL
    if figures.planned is None or not figures.live:
        return NOT_MEASURED
    return _at_most(figures.planned.reserved / figures.live, 1 + figures.program.steps.value)


def steps_no_slower(figures: ProgramFigures) -> Verdict:
    """Judge the median step, turn by turn."""
    return _at_most(figures.step_ratio, MOST_STEP)


def worst_no_slower(figures: ProgramFigures) -> Verdict:
    """Judge the slowest step after the warm-up."""
    return _at_most(figures.to_native(lambda one: one.worst_seconds), MOST_WORST_STEP)


def bits_are_equal(figures: ProgramFigures) -> Verdict:
    """Judge losses and parameters of the checks; PyTorch's own have to agree with each other."""
    return bits_equal_under(Allocator.PLANNED, figures)


def bits_equal_under(allocator: Allocator, figures: ProgramFigures) -> Verdict:
    """Judge the bits under one allocator."""
    checks = [figures.findings.checks.get(its) for its in (*NATIVE, allocator)]
    bits = [check.bits for check in checks if isinstance(check, ProgramResult)]
    if len(bits) < len(checks):
        return NOT_MEASURED
    default, expandable, ours = bits
    if default != expandable:
        return Verdict(False, "PyTorch's own differ")
    return Verdict(ours == default, "equal" if ours == default else "differ")


NOT_MEASURED = Verdict(False, "not measured")
PRIVATE_POOL = Verdict(True, "private pool", is_judged=False)

# What is to hold, and who judges.
REACH: dict[str, Callable[[ProgramFigures], Verdict]] = {
    "reserves no more than PyTorch": reserves_no_more,
    "near live memory": stays_near_live,
    "median step": steps_no_slower,
    "worst step": worst_no_slower,
    "bits": bits_are_equal,
}


def _at_most(ratio: float | None, most: float) -> Verdict:
    return NOT_MEASURED if ratio is None else Verdict(ratio <= most, f"{ratio - 1:+.2%}")
