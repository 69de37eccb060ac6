"""Runs of one contestant: a planner of ours or an allocator of the peer, judged by the referee."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Any

from evaluation.benchmarks.measuring.isolated_measurement import MeasuredCall, run_isolated
from planners.model.plan import Result, Status
from planners.model.problem import Problem
from planners.referee.naive import find_violation


@dataclass(frozen=True)
class ContestantRuns:
    """What a planner answered, after the referee, and what each of its runs took."""

    # The first wrong answer if there is one, else the last.
    result: Result
    # Of the planning call, one entry a run.
    cpu_seconds: tuple[float, ...]
    # What the call added to resident memory at its peak, one entry a run.
    added_bytes: tuple[int, ...]

    @property
    def peak(self) -> int | None:
        """Peak of the plan in bytes; None where no valid one is there to have a peak."""
        return self.result.peak if self.result.valid else None

    @property
    def seconds(self) -> float:
        """Median processor seconds."""
        return statistics.median(self.cpu_seconds)

    @property
    def memory(self) -> float:
        """Median of the bytes that the call added."""
        return statistics.median(self.added_bytes)


def run_contestant(
    problem: Problem, call: MeasuredCall[Any, Any, Result], repetitions: int
) -> ContestantRuns:
    """Run a call in one fresh process after the other, and judge every plan; at least once."""
    runs = [run_isolated(call) for _ in range(repetitions)]
    judged = [_judge(problem, run.answer) for run in runs]
    return ContestantRuns(
        next((result for result in judged if not result.valid), judged[-1]),
        tuple(run.cpu_seconds for run in runs),
        tuple(run.added_bytes for run in runs),
    )


def _judge(problem: Problem, result: Result) -> Result:
    if result.plan is None:
        return result
    violation = find_violation(problem, result.plan)
    return result if violation is None else replace(result, status=Status.INVALID, reason=violation)
