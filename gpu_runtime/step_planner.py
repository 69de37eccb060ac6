"""Profiles steps, plans them, and has the plan served."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from gpu_runtime._core import PlannedAllocator, StepMode, StreamPlan
from gpu_runtime.step_problem import StreamProblem, block_bytes, step_problems
from gpu_runtime.step_profile import StepLog, StepProfile
from planners.bounds import bounds_of
from planners.budget import Budget
from planners.errors import DeviceError, GaplessError
from planners.plan import Result, Status
from planners.registry import get
from planners.run import run


@dataclass(frozen=True)
class StepPlanning:
    """A plan that is in force.

    Parameters
    ----------
    problems, results
        One a stream.
    outliving_bytes
        Bytes of what lies outside of the arena in a step that runs like the profiled one.
    """

    problems: tuple[StreamProblem, ...]
    results: tuple[Result, ...]
    outliving_bytes: int

    @property
    def arena_bytes(self) -> int:
        """Sum of the plans' peaks."""
        return sum(result.peak or 0 for result in self.results)

    @property
    def lower_bound(self) -> int:
        """Bytes below which no arena can stay, by the planners' proofs."""
        return sum(result.lower_bound for result in self.results)

    @property
    def optimal(self) -> bool:
        """Whether every plan is proven to be the best."""
        return all(result.status is Status.OPTIMAL for result in self.results)


class StepPlanner:
    """Decides what an allocator does with each step.

    The first steps are profiled. As soon as two in a row made the same requests, they are planned,
    and the allocator serves the plan from the next step on. Where no two steps are alike for
    `max_profiled_steps`, the last but one is planned.

    Parameters
    ----------
    allocator
        Serves the requests.
    planner
        Name of a registered planner.
    time_limit
        Seconds that it may take, for each stream.
    max_profiled_steps
        At least 2.

    Raises
    ------
    UnknownPlannerError
        No planner has this name.
    GaplessError
        A number is out of range.
    """

    def __init__(
        self,
        allocator: PlannedAllocator,
        planner: str,
        time_limit: float,
        max_profiled_steps: int,
    ) -> None:
        if max_profiled_steps < 2:
            raise GaplessError(
                f"profiled steps: at least 2, to see whether they are alike, "
                f"found {max_profiled_steps}"
            )
        self.allocator = allocator
        self.planner = get(planner)
        self.planning: StepPlanning | None = None
        self.reason = ""
        self._budget = Budget(time_limit_seconds=time_limit)
        self._max_profiled_steps = max_profiled_steps
        self._log: StepLog | None = StepLog()
        self._planned_steps = 0

    @property
    def status(self) -> str:
        """``profiling``, ``optimal``, ``feasible``, or ``unplanned``."""
        if self._log is not None:
            return "profiling"
        if self.planning is None:
            return "unplanned"
        return "optimal" if self.planning.optimal else "feasible"

    def begin_step(self) -> None:
        """Begin a step, and plan before it where enough is known.

        Raises
        ------
        DeviceError
            The step before has not ended.
        """
        if self._log is not None:
            self._log.add(self.allocator.take_log())
            self._plan_if_known(self._log)
        try:
            self.allocator.begin_step(self._mode())
        except RuntimeError as error:
            raise DeviceError(f"step: {error}; a step ends before the next one begins") from None

    def end_step(self, *, completed: bool) -> None:
        """End a step.

        Parameters
        ----------
        completed
            Whether it came to its own end; others are not planned.
        """
        self.allocator.end_step()
        if self._log is not None:
            self._log.add(self.allocator.take_log())
            self._log.end_step(completed=completed)
        elif self.planning is not None:
            self._planned_steps += 1
            if self._planned_steps == 1:
                # What moved into the arena in this step has left holes in the heap.
                self.allocator.give_back()

    def _mode(self) -> StepMode:
        if self._log is not None:
            return StepMode.PROFILED
        return StepMode.UNPLANNED if self.planning is None else StepMode.PLANNED

    def _plan_if_known(self, log: StepLog) -> None:
        profile = log.repeated_step()
        if profile is None and log.step_count >= self._max_profiled_steps:
            profile = log.last_completed_step()
            if profile is None:
                self._give_up("no step came to its own end while steps were profiled")
                return
        if profile is not None:
            self._plan(profile, log)

    def _plan(self, profile: StepProfile, log: StepLog) -> None:
        problems = step_problems(profile, "training step")
        results = tuple(
            run(self.planner, stream.problem, self._budget, bounds_of(stream.problem))
            for stream in problems
        )
        for result in results:
            if result.plan is None or not result.valid:
                self._give_up(
                    f"planner {self.planner.label}: {result.status.value}, {result.reason}"
                )
                return
        planning = StepPlanning(problems, results, self._outliving_bytes(problems, log))
        try:
            self.allocator.adopt_plan(_stream_plans(planning), planning.arena_bytes)
        except (MemoryError, OSError) as error:
            self._give_up(f"an arena of {planning.arena_bytes} bytes cannot be had: {error}")
            return
        self.planning = planning
        self._log = None

    def _give_up(self, reason: str) -> None:
        """Go on without a plan: training is worth more than its memory."""
        self._log = None
        self.reason = reason
        warnings.warn(f"training goes on without a plan: {reason}", RuntimeWarning, stacklevel=5)

    def _outliving_bytes(self, problems: tuple[StreamProblem, ...], log: StepLog) -> int:
        """Bytes outside of the arena, once what has a place there has gone there.

        In use by now are what was there before, which stays, and what the steps have left. Of that
        the requests with a place go to the arena the next time. Those without may be made again
        before the last ones are freed.
        """
        in_use = log.in_use()
        moving = again = 0
        for stream in problems:
            size = block_bytes(stream.profile.size)
            planned = np.zeros(len(size), dtype=bool)
            planned[stream.planned] = True
            moving += int(size[planned & in_use[stream.profile.stream]].sum())
            again += int(size[~planned].sum())
        return self.allocator.figures().heap_bytes - moving + again


def _stream_plans(planning: StepPlanning) -> list[StreamPlan]:
    """Plans of the streams, one behind the other."""
    plans: list[StreamPlan] = []
    begin = 0
    for stream, result in zip(planning.problems, planning.results, strict=True):
        assert result.plan is not None
        plans.append(stream.stream_plan(result.plan, begin))
        begin += result.plan.peak
    return plans
