"""Plans the kinds of step of a program beside it, and has the allocator serve the plans."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Literal

from gpu_runtime._core import REPEATED, PlannedAllocator, StepEnd
from gpu_runtime.allocator.book import Book, plan_book
from gpu_runtime.allocator.book_adoption import EQUAL_SHARE, BookTrial, Decision
from gpu_runtime.allocator.book_problem import LEAST_PEAK
from gpu_runtime.allocator.planning_thread import PlanningThread
from gpu_runtime.allocator.step_kind import StepKind
from gpu_runtime.allocator.step_observer import StepObserver
from gpu_runtime.allocator.trial_schedule import TrialSchedule
from planners.errors import DeviceError, GaplessError
from planners.model.budget import Budget
from planners.registry import ChosenPlanner

# Beside the program, or between its steps, where it waits.
Planning = Literal["beside", "between"]

# Most seconds for the first plan of a problem; a plan by the whole time limit may follow. A guess.
SOON_SECONDS = 0.5


class BookPlanner:
    """Makes books of plans of the steps that an allocator serves, and has it adopt them.

    After a step that did not go as planned, books are tried: the book in force, and a new one if
    the record of the program has news that a plan must know. A thread beside the program makes the
    plan and the trial. The decision of the trial takes effect at the end of a later step.
    """

    def __init__(
        self,
        allocator: PlannedAllocator,
        planner: ChosenPlanner,
        budget: Budget,
        planning: Planning = "beside",
        least_peak: int = LEAST_PEAK,
    ) -> None:
        self.allocator = allocator
        self.observer = StepObserver(allocator)
        self.book: Book | None = None
        # Number of adopted books, and the reason why the last book was refused or dropped.
        self.plans = 0
        self.reason = ""
        # True if a trial gave this reason.
        self._is_refused = False
        self._planner = planner
        self._budget = budget
        self._planning = planning
        self._least_peak = least_peak
        self._thread: PlanningThread[Decision] = PlanningThread()
        # True if the thread plans the problem of the book in force again, with more time.
        self._is_improving = False
        # Version of the record that the last plan was made of.
        self._planned_version = 0
        self._schedule = TrialSchedule()
        self._in_step = Lock()
        self._between: StepEnd

    @property
    def status(self) -> str:
        """The quality of the plan in force, or why there is none."""
        if self.book is None:
            return "unplanned" if self.reason else "profiling"
        return "optimal" if self.book.optimal else "feasible"

    @property
    def advice(self) -> str:
        """A sentence for the user if trials refuse all plans; empty if they do not."""
        if self.book is not None or not self._is_refused:
            return ""
        return (
            "no plan pays; the heap alone serves these steps better. Name steps that recur, as in "
            "memory.step('eval')"
        )

    @property
    def kinds(self) -> Sequence[StepKind]:
        """The kinds of step that were seen more than once."""
        return list(map(StepKind.of, self.observer.record.kinds(REPEATED)))

    def reset_counts(self) -> None:
        """Count from now."""
        self.observer.served.clear()

    def adopt(self, book: Book) -> None:
        """Adopt a book of another process, before the first step."""
        self.observer = StepObserver(self.allocator, book.problem.kinds)
        self._planned_version = self.observer.record.version
        self.allocator.adopt_book(book.core_book())
        self._follow(book)

    def begin_step(self, label: int) -> None:
        """Begin a step."""
        if not self._in_step.acquire(blocking=False):
            raise DeviceError(
                "step: a step begins within a step; a step ends before the next one begins"
            )
        try:
            self._between = self.allocator.begin_step(label)
        except BaseException:
            self._in_step.release()
            raise

    def end_step(self, *, completed: bool) -> None:
        """End a step; a step that was not completed is not recorded."""
        if not self._in_step.locked():
            raise DeviceError("step: a step ends that did not begin; begin_step() comes before")
        try:
            end = self.allocator.end_step()
            as_planned = self.observer.saw(self._between, end, completed=completed)
            self._schedule.end_step(as_planned=as_planned)
            self._obey_if_ready()
            if completed and not as_planned:
                self._try_if_due()
        finally:
            self._in_step.release()

    def wait_for_planning(self) -> None:
        """Wait for the plan that is being made; a later step adopts it."""
        self._thread.wait()

    def finish_planning(self) -> None:
        """Wait for the plan that is being made, and adopt it; for calls between two steps."""
        self._obey_if_ready(wait=True)

    def _try_if_due(self) -> None:
        """Try the book in force, and a new book if there is news."""
        record, trial = self.observer.record, self.observer.trial()
        if not record.version or not trial.logs or not self._schedule.is_due:
            return
        is_new = self.book is None or record.version > self._planned_version or self._has_guests
        if self._thread.is_busy:
            if self._is_improving and is_new:
                self._thread.interrupt()
            return
        # The record changes while the thread plans, so the thread gets copies of the kinds.
        records = record.kinds(REPEATED) if is_new else []
        guests, book = self.observer.guests.rows, self.book
        self._planned_version = record.version
        self._schedule.begin_trial()

        def plan(budget: Budget) -> Book | None:
            if not records:
                return None
            kinds = list(map(StepKind.of, records))
            return plan_book(kinds, self._planner, budget, self._least_peak, guests)

        if self._planning == "beside":
            self._thread.start(lambda: self._decide_soon(trial, book, plan))
        else:
            self._obey(lambda: trial.decide(book, plan(self._budget)))

    @property
    def _has_guests(self) -> bool:
        """Return True if the guests of the arena are not those that the book was made for."""
        found = self.observer.guests.rows
        return self.book is not None and found.tolist() != self.book.problem.guests.tolist()

    def _decide_soon(
        self, trial: BookTrial, book: Book | None, plan: Callable[[Budget], Book | None]
    ) -> Decision:
        """Try a plan that is made soon; if it fails or is refused, a plan that takes longer."""
        limit = self._budget.time_limit_seconds
        if limit is None or limit > SOON_SECONDS:
            try:
                candidate = plan(replace(self._budget, time_limit_seconds=SOON_SECONDS))
                decision = trial.decide(book, candidate)
                if not decision.reason or candidate is None or candidate.optimal:
                    return decision
            except GaplessError:
                pass  # The planner may find a plan with more time.
        return trial.decide(book, plan(self._budget))

    def _obey_if_ready(self, *, wait: bool = False) -> None:
        """Carry out the decision of the thread, if there is one."""
        is_improving, plans = self._is_improving, self.plans
        try:
            decision = self._thread.take(wait=wait)
        except BaseException as error:
            self._is_improving = False
            if not is_improving:
                self._obey(_raises(error))
            elif not isinstance(error, (GaplessError, KeyboardInterrupt)):
                raise
            return
        if decision is None:
            return
        self._is_improving = False
        if is_improving and decision.reason:
            return
        self._obey(lambda: decision)
        if self.plans > plans:
            self._improve()

    def _improve(self) -> None:
        """Plan the problem of the book in force again in the thread, with the whole time limit."""
        book = self.book
        if book is None or book.gap <= EQUAL_SHARE:
            return
        problem, trial = book.problem, self.observer.trial()
        self._is_improving = True

        def decide() -> Decision:
            better = plan_book(
                problem.kinds, self._planner, self._budget, self._least_peak, problem.guests
            )
            return trial.decide(book, better)

        self._thread.start(decide)

    def _obey(self, decide: Callable[[], Decision]) -> None:
        """Carry out a decision; if that fails, the program goes on as before."""
        try:
            decision = decide()
            former = self.book
            if decision.core_book is not None:
                self.allocator.adopt_book(decision.core_book)
            elif former is not None and self._schedule.is_last(is_costly=bool(decision.excess)):
                self.allocator.drop_book()
                decision = Decision(None, reason=decision.excess)
        except KeyboardInterrupt:
            # The interrupted plan is made again after the next step.
            self._planned_version = 0
            self._schedule.again()
            raise
        except (MemoryError, OSError) as error:
            self._go_on(f"an arena cannot be had: {error}")
        except Exception as error:  # a planner may be anybody's
            self._go_on(str(error))
        else:
            self.reason = decision.reason
            self._is_refused = bool(decision.reason) and not decision.is_too_small
            is_first = former is None and decision.book is not None
            self._schedule.end_trial(is_next_soon=is_first or bool(decision.excess))
            if decision.book is not former:
                self._follow(decision.book)

    def _follow(self, book: Book | None) -> None:
        self.book = book
        self.plans += book is not None
        self._schedule.begin_book()
        self.observer.follow(book)

    def _go_on(self, reason: str) -> None:
        self._schedule.end_trial(is_next_soon=False)
        self._is_refused = False
        if reason != self.reason:
            self.reason = reason
            warnings.warn(
                f"training goes on without a new plan: {reason}", RuntimeWarning, stacklevel=8
            )


def _raises(error: BaseException) -> Callable[[], Decision]:
    def decide() -> Decision:
        raise error

    return decide
