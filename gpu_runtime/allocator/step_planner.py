"""Profiles steps, plans them, and has the plan served."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from threading import Lock

import numpy as np

from gpu_runtime._core import PlannedAllocator, StepCounts, StepMode, StreamPlan
from gpu_runtime.allocator.step_problem import StreamProblem, block_bytes, step_problems
from gpu_runtime.allocator.step_profile import StepLog, StepProfile
from planners.errors import DeviceError
from planners.model.bounds import bounds_of
from planners.model.budget import Budget
from planners.model.plan import Result, Status
from planners.registry import ChosenPlanner
from planners.run import run


@dataclass(frozen=True)
class StepPlanning:
    """A plan that is in force."""

    # One a stream.
    problems: tuple[StreamProblem, ...]
    results: tuple[Result, ...]
    # Bytes that a step finds outside of the arena and leaves there.
    persisting_bytes: int
    # Bytes of the requests without a place in the arena.
    renewed_bytes: int

    @property
    def arena_bytes(self) -> int:
        """Sum of the plans' peaks."""
        return sum(result.peak or 0 for result in self.results)

    @property
    def escaping_bytes(self) -> int:
        """Bytes outside of the arena: what a step left may be made again before it is freed."""
        return self.persisting_bytes + 2 * self.renewed_bytes

    @property
    def lower_bound(self) -> int:
        """Bytes below which no plan of this step can stay, by the planners' proofs.

        Of a plan, that is, in which streams share no bytes: each has a bound of its own. At any
        time what a step renews is there once: as the one before left it, or made again.
        """
        arena = sum(result.lower_bound for result in self.results)
        return arena + self.persisting_bytes + self.renewed_bytes

    @property
    def optimal(self) -> bool:
        """Whether every plan is proven to be the best."""
        return all(result.status is Status.OPTIMAL for result in self.results)


class StepPlanner:
    """Decides what an allocator does with each step.

    The first steps are profiled. As soon as two in a row made the same requests, they are planned,
    and the allocator serves the plan from the next step on. Where no two steps are alike for
    `max_profiled_steps`, the last but one is planned. When the program has changed, so that most
    requests of `patience` steps in a row are not as planned, the plan is dropped and all begins
    again; each time it takes twice as many such steps, for a program may never settle. Without a
    patience the first plan is kept for good. The budget is for each stream.
    """

    def __init__(
        self,
        allocator: PlannedAllocator,
        planner: ChosenPlanner,
        budget: Budget,
        max_profiled_steps: int,
        patience: int | None,
    ) -> None:
        self.allocator = allocator
        self.planner = planner
        self.planning: StepPlanning | None = None
        self.reason = ""
        self._budget = budget
        self._max_profiled_steps = max_profiled_steps
        self._log: StepLog | None = StepLog()
        self._settled = False
        self.plans = 0
        self._unlike_steps = 0
        self._patience = patience
        # Held from before a step is planned: a thread that comes meanwhile must not plan as well.
        self._in_step = Lock()

    @property
    def status(self) -> str:
        """``profiling``, ``optimal``, ``feasible``, or ``unplanned``."""
        if self._log is not None:
            return "profiling"
        if self.planning is None:
            return "unplanned"
        return "optimal" if self.planning.optimal else "feasible"

    def begin_step(self) -> None:
        """Begin a step, and plan before it where enough is known."""
        if not self._in_step.acquire(blocking=False):
            raise DeviceError(
                "step: a step begins within a step; a step ends before the next one begins"
            )
        try:
            if self._log is not None:
                self._log.add(self.allocator.take_log())
                self._plan_if_known(self._log)
                if self._log is None and self.planning is None:
                    # The user's `with` is behind this method, step() and contextlib.
                    reason = f"training goes on without a plan: {self.reason}"
                    warnings.warn(reason, RuntimeWarning, stacklevel=4)
            self.allocator.begin_step(self._mode())
        except BaseException:
            self._in_step.release()
            raise

    def end_step(self, *, completed: bool) -> None:
        """End a step; one that has not come to its own end is not planned."""
        try:
            self._end_step(completed=completed)
        finally:
            self._in_step.release()

    def _end_step(self, *, completed: bool) -> None:
        counts = self.allocator.end_step()
        if self._log is not None:
            self._log.add(self.allocator.take_log())
            self._log.end_step(completed=completed)
        elif self.planning is not None and completed:
            if not self._settled:
                # What moved into the arena in this step has left holes in the heap.
                self._settled = True
                self.allocator.give_back()
            self._judge(counts)

    def _judge(self, counts: StepCounts) -> None:
        """Drop the plan where it has not been kept to for too long."""
        is_unlike = counts.fallback > counts.planned + counts.escaping
        self._unlike_steps = self._unlike_steps + 1 if is_unlike else 0
        if self._patience is None or self._unlike_steps < self._patience:
            return
        self._unlike_steps = 0
        self._patience *= 2
        self.planning = None
        self._settled = False
        self._log = StepLog()
        self.allocator.drop_plan()

    def _mode(self) -> StepMode:
        if self._log is not None:
            return StepMode.PROFILED
        return StepMode.UNPLANNED if self.planning is None else StepMode.PLANNED

    def _plan_if_known(self, log: StepLog) -> None:
        profile = log.repeated_step()
        if profile is None and log.step_count >= self._max_profiled_steps:
            profile = log.last_completed_step()
            if profile is None:
                self._give_up(
                    f"of {log.step_count} profiled steps, none that came to its own end and asked "
                    f"for memory was followed by another"
                )
                return
        if profile is not None:
            self._plan(profile, log)

    def _plan(self, profile: StepProfile, log: StepLog) -> None:
        problems = step_problems(profile, "training step")
        results = tuple(
            run(stream.problem, self.planner, self._budget, bounds_of(stream.problem))
            for stream in problems
        )
        if any(result.interrupted for result in results):
            # A planner may keep its best plan at Ctrl-C. That is the program's to end by; where it
            # goes on, the next step asks again.
            raise KeyboardInterrupt
        for result in results:
            if result.plan is None or not result.valid:
                self._give_up(
                    f"planner {self.planner.label}: {result.status.value}, {result.reason}"
                )
                return
        # What the last step left goes to the arena the next time, or is renewed.
        left = int(block_bytes(log.sizes_in_use()).sum())
        planning = StepPlanning(
            problems, results, self.allocator.figures().heap_bytes - left, _renewed_bytes(problems)
        )
        try:
            self.allocator.adopt_plan(_stream_plans(planning), planning.arena_bytes)
        except (MemoryError, OSError) as error:
            self._give_up(f"an arena of {planning.arena_bytes} bytes cannot be had: {error}")
            return
        self.planning = planning
        self.plans += 1
        self._log = None

    def _give_up(self, reason: str) -> None:
        """Go on without a plan: training is worth more than its memory."""
        self._log = None
        self.reason = reason


def _renewed_bytes(problems: tuple[StreamProblem, ...]) -> int:
    return sum(
        int(block_bytes(np.delete(stream.profile.size, stream.planned)).sum())
        for stream in problems
    )


def _stream_plans(planning: StepPlanning) -> list[StreamPlan]:
    """Plans of the streams, one behind the other."""
    plans: list[StreamPlan] = []
    begin = 0
    for stream, result in zip(planning.problems, planning.results, strict=True):
        assert result.plan is not None
        plans.append(stream.stream_plan(result.plan, begin))
        begin += result.plan.peak
    return plans
