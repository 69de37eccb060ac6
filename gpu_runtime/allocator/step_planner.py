"""Plans the steps of a program that repeat, beside it, and has the allocator serve the plans."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gpu_runtime._core import PlannedAllocator, StepEnd, StepKind
from gpu_runtime.allocator.frames_in_use import FramesInUse, frames_in_use
from gpu_runtime.allocator.planning_thread import PlanningThread
from gpu_runtime.allocator.step_problem import PHASES, StepProblem, step_problem
from planners.errors import DeviceError, GaplessError
from planners.judged_run import run
from planners.model.bounds import bounds_of
from planners.model.budget import Budget
from planners.model.plan import Result, Status
from planners.registry import ChosenPlanner

# Beside the program, or between its steps, where it waits.
Planning = Literal["beside", "between"]


@dataclass(frozen=True)
class PlannedSteps:
    """The problem of the steps that repeat, and a valid plan of it."""

    problem: StepProblem
    result: Result

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena: the peak of the plan."""
        assert self.result.plan is not None
        return self.result.plan.peak

    def held_bytes(self, frames: FramesInUse, page_bytes: int) -> int:
        """Return the bytes of the arena's frames and of those beside it."""
        return (frames.count - -self.arena_bytes // page_bytes) * page_bytes

    @property
    def is_optimal(self) -> bool:
        """Return True if no plan of this problem has a smaller arena, by proof."""
        return self.result.status is Status.OPTIMAL


class StepPlanner:
    """Makes plans of the steps that an allocator serves, and has it adopt them.

    A kind of step is planned when it was seen twice, together with all kinds that repeat. A thread
    beside the program makes the plan; the allocator adopts it at the end of a later step.
    """

    def __init__(
        self,
        allocator: PlannedAllocator,
        planner: ChosenPlanner,
        budget: Budget,
        planning: Planning = "beside",
    ) -> None:
        self.allocator = allocator
        self.planned: PlannedSteps | None = None
        # Number of adopted plans, and the reason why the last plan was not adopted.
        self.plans = 0
        self.reason = ""
        # By number of a kind: the steps that followed its plan since the last reset.
        self.followed: Counter[int] = Counter()
        self._planner = planner
        self._budget = budget
        self._planning = planning
        self._thread: PlanningThread[PlannedSteps] = PlanningThread()
        # Whether what came before the running step followed a plan, or was nothing.
        self._is_between_planned = True
        # The numbers of the kinds that a planner works on, or was asked for in vain; and for how
        # much memory a plan was too large then.
        self._asked: list[int] = []
        self._no_room: tuple[int, int] | None = None

    @property
    def status(self) -> str:
        """The quality of the plan in force, or why there is none."""
        if self.planned is None:
            return "unplanned" if self.reason else "profiling"
        return "optimal" if self.planned.is_optimal else "feasible"

    @property
    def kinds(self) -> Sequence[StepKind]:
        """The kinds of step that were seen more than once."""
        return [kind for kind in self.allocator.kinds() if kind.seen > 1]

    def reset_counts(self) -> None:
        """Count from now."""
        self.followed.clear()

    def begin_step(self, label: int) -> None:
        """Begin a step."""
        try:
            between = self.allocator.begin_step(label)
        except RuntimeError:
            raise DeviceError(
                "step: a step begins within a step; a step ends before the next one begins"
            ) from None
        self.followed[between.kind] += between.is_planned
        self._is_between_planned = between.is_planned or between.kind < 0

    def end_step(self, *, completed: bool) -> StepEnd:
        """End a step; a step that was not completed is not recorded."""
        try:
            end = self.allocator.end_step(completed)
        except RuntimeError:
            raise DeviceError(
                "step: a step ends that did not begin; begin_step() comes before"
            ) from None
        self.followed[end.kind] += end.is_planned
        if self.planned is not None and not self.allocator.has_plans:
            self.planned, self.reason = None, "the steps left the plan"
        self.finish_planning(wait=False)
        is_all_planned = end.is_planned and self._is_between_planned
        if completed and not is_all_planned and not self._thread.is_busy:
            self._plan_news()
        return end

    def wait_for_planning(self) -> None:
        """Wait for the plan that is being made; a later step adopts it."""
        self._thread.wait()

    def finish_planning(self, *, wait: bool = True) -> None:
        """Adopt the plan that was made, between two steps."""
        self._adopt_made(lambda: self._thread.take(wait=wait))

    def _plan_news(self) -> None:
        """Plan the steps that repeat, if there are any that have no plan and were not tried."""
        kinds = self.allocator.to_plan()
        numbers = [kind.number for kind in kinds]
        is_known = numbers == self._asked
        if not kinds or (is_known and self._no_room is None):
            return
        blocks, page_bytes = self.allocator.blocks_in_use(), self.allocator.page_bytes
        room = self._shadow_bytes, frames_in_use(blocks, page_bytes).count
        if is_known and self._no_room == room:
            return
        self._asked, self._no_room = numbers, None

        def plan() -> PlannedSteps:
            # A plan that needs too much gets places in holes, then places of one phase alone: any
            # phases of two kinds may meet, so what lives from step to step takes room for all.
            for phases in range(PHASES, 0, -1):
                problem = step_problem(kinds, phases)
                frames = problem.frames_in_use(blocks, page_bytes)
                for is_with_holes in (False, True):
                    problem = problem.with_holes(frames) if is_with_holes else problem
                    planned = plan_steps(problem, self._planner, self._budget)
                    if planned.held_bytes(frames, page_bytes) <= self._shadow_bytes:
                        return planned
                if len(problem.kinds) == len(kinds):
                    break
            return planned

        if self._planning == "beside":
            self._thread.start(plan)
        else:
            self._adopt_made(plan)

    def _adopt_made(self, make: Callable[[], PlannedSteps | None]) -> None:
        """Adopt the plans that a call makes; if the call fails, training goes on as before."""
        try:
            planned = make()
            if planned is not None:
                self._adopt(planned)
        except KeyboardInterrupt:
            # The interrupted plan is made again after the next step.
            self._asked = []
            raise
        except Exception as error:  # a planner may be anybody's
            self._refuse(error)

    def _adopt(self, planned: PlannedSteps) -> None:
        assert planned.result.plan is not None
        blocks, page_bytes = self.allocator.blocks_in_use(), self.allocator.page_bytes
        frames = planned.problem.frames_in_use(blocks, page_bytes)
        held, most = planned.held_bytes(frames, page_bytes), self._shadow_bytes
        if held > most:
            self._no_room = most, frames_in_use(blocks, page_bytes).count
            raise GaplessError(
                f"a plan and the blocks beside it need at most the {most:,} bytes that PyTorch "
                f"would reserve, found {planned.arena_bytes:,} and {held - planned.arena_bytes:,}"
            )
        self.allocator.adopt(planned.problem.plans(planned.result.plan), planned.arena_bytes)
        self.planned, self.reason = planned, ""
        self.plans += 1
        self._asked = []

    @property
    def _shadow_bytes(self) -> int:
        figures = self.allocator.figures()
        return min(figures.default_peak, figures.expandable_peak)

    def _refuse(self, error: Exception) -> None:
        is_ours = isinstance(error, GaplessError)
        self.reason = str(error) if is_ours else f"an arena cannot be had: {error}"
        warnings.warn(
            f"training goes on without a new plan: {self.reason}", RuntimeWarning, stacklevel=8
        )


def plan_steps(problem: StepProblem, planner: ChosenPlanner, budget: Budget) -> PlannedSteps:
    """Plan kinds of step; raise ``GaplessError`` if there is no valid plan."""
    result = run(problem.problem, planner, budget, bounds_of(problem.problem))
    if result.interrupted:
        # At Ctrl-C a planner may return its best plan instead of raising. Ctrl-C is meant for the
        # whole program, so it is raised again.
        raise KeyboardInterrupt
    if result.plan is None or not result.valid:
        raise GaplessError(f"planner {planner.label}: {result.status.value}, {result.reason}")
    return PlannedSteps(problem, result)
