"""Watches the steps of a program, and plans its kinds of step beside it."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import REPEATED, ProgramRecord, StepEnd
from gpu_runtime._core import Book as CoreBook
from gpu_runtime.allocator.book import Book, ReadyBook, plan_book
from gpu_runtime.allocator.book_judge import BookJudge
from gpu_runtime.allocator.book_problem import LEAST_PEAK, NO_GUESTS
from gpu_runtime.allocator.planning_thread import PlanningThread
from gpu_runtime.allocator.step_kind import StepKind
from planners.errors import DeviceError, GaplessError
from planners.model.budget import Budget
from planners.registry import ChosenPlanner
from planners.text.byte_units import exact_bytes

# Beside the program, or between its steps, where it waits.
Planning = Literal["beside", "between"]

# Logs are read until so many taught nothing, since what is freed tells of the steps before. Then a
# step as planned is no news.
QUIET_LOGS = 8
# Where nothing was learnt from so many logs in a row of steps unlike the plan's, they are read only
# now and then: every 16th, then every 32nd, and so on.
VAIN_LOGS = 16
LONGEST_INTERVAL = 256
# A block that stayed outside the places of a book for this many logs is expected to stay. A guess.
OLD_LOGS = 4
# Training goes on with a plan that was made in so many seconds; one that takes longer follows where
# it saves so much of the arena.
SOON_SECONDS = 0.5
MUCH = 0.001
# Steps between two plans, of which the second served no better, at most.
LONGEST_WAIT = 64
# A book waits for so many steps, at most, until what lies elsewhere leaves room for its arena: this
# part, and so many bytes, above what ever lived; a first one also until as much has lived.
LONGEST_PATIENCE = 16
ROOM_ABOVE_LIVE = 1 / 64
LEAST_ROOM = 64 << 20


class _Figures(Protocol):
    @property
    def allocated_bytes(self) -> int: ...
    @property
    def fallback_bytes(self) -> int: ...
    @property
    def step_bytes(self) -> int: ...
    @property
    def live_peak(self) -> int: ...


class SteppedAllocator(Protocol):
    """The methods of an allocator that the planner of books calls."""

    def begin_step(self, label: int = 0) -> StepEnd:
        """Begin a step; return how went what ran before it."""

    def end_step(self) -> StepEnd:
        """End a step; return how it went."""

    def take_log(self) -> NDArray[np.int64]:
        """Return the log since it was last taken or dropped, and forget it."""

    def drop_log(self) -> None:
        """Forget the log."""

    def adopt_book(self, book: CoreBook) -> None:
        """Serve by a book from now on, which is used up."""

    def drop_book(self) -> None:
        """Serve without a book from now on."""

    def blocks_in_arena(self) -> NDArray[np.int64]:
        """Return rows ``(offset, bytes, request, kind, slot)`` of what lies in the arena."""

    def give_back(self) -> int:
        """Give idle memory back to the device, but for the arena's; return how many bytes."""

    def figures(self) -> _Figures:
        """Return what was counted."""


class BookPlanner:
    """Has an allocator serve a book of plans of the steps that it was seen to serve.

    The log of each step that was not as planned goes to a record of the program. When the record
    has learnt something that a plan has to know, a new book is planned beside the program, and
    adopted at the beginning or end of a step as soon as it is there. Nothing is planned that was
    seen once.
    """

    def __init__(
        self,
        allocator: SteppedAllocator,
        planner: ChosenPlanner,
        budget: Budget,
        planning: Planning = "beside",
        least_peak: int = LEAST_PEAK,
    ) -> None:
        self.allocator = allocator
        self.book: Book | None = None
        # Books that were adopted, and why the last one was not.
        self.plans = 0
        self.reason = ""
        # Bytes of the blocks that outlived the steps of the last log.
        self.persisting_bytes = 0
        # By number of a kind: requests that its plan served or expected, and all of its steps.
        self.served: dict[int, list[int]] = {}
        self._planner = planner
        self._budget = budget
        self._planning = planning
        self._least_peak = least_peak
        self._record = ProgramRecord([])
        self._thread: PlanningThread[ReadyBook] = PlanningThread()
        self._planned_version = 0
        self._in_step = Lock()
        self._step = 0
        self._between: StepEnd
        # Logs in a row of which nothing was learnt; the first ones are of steps unlike the plan's.
        self._vain_logs = self._quiet_logs = 0
        self._interval = VAIN_LOGS
        # The kinds whose numbers the rows of the log have.
        self._in_log: list[int] = []
        # Numbers of the last requests of the last logs that were read.
        self._newest = deque([-1], maxlen=OLD_LOGS)
        # Blocks that the next book is to be planned around.
        self._guests = NO_GUESTS
        self._youngest_guest = -1
        self._guests_changed = False
        self._judge = BookJudge()
        # A book that waits for room, and for how many steps more.
        self._waiting: ReadyBook | None = None
        self._patience = LONGEST_PATIENCE
        # The book in force that is planned again with more time, if one is.
        self._improved: Book | None = None
        # How many logs were read.
        self.logs_read = 0
        # Steps that a plan has to wait for after the one before, and how that one served.
        self._wait = 1
        self._planned_at = 0
        self._bytes_at_plan = 0
        self._bytes_a_step = float("inf")

    @property
    def status(self) -> str:
        """How good the plan in force is, or that there is none yet."""
        if self.book is None:
            return "unplanned" if self.reason else "profiling"
        return "optimal" if self.book.optimal else "feasible"

    @property
    def kinds(self) -> Sequence[StepKind]:
        """The kinds of step that were seen more than once."""
        return list(map(StepKind.of, self._record.kinds(REPEATED)))

    def reset_counts(self) -> None:
        """Count from now."""
        self._bytes_at_plan = 0
        self._judge.reset_counts()
        self.served.clear()

    def adopt(self, book: Book) -> None:
        """Adopt a book that was made elsewhere, before the first step."""
        self._record = ProgramRecord([kind.record() for kind in book.problem.kinds])
        self._planned_version = self._record.version
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
        """End a step; one that has not come to its own end is not learnt from."""
        if not self._in_step.locked():
            raise DeviceError("step: a step ends that did not begin; begin_step() comes before")
        try:
            end = self.allocator.end_step()
            self._step += 1
            self._learn(end, completed=completed)
            self._judge_step(end.reserved_peak)
            self._adopt_if_ready()
            self._plan_if_new()
        finally:
            self._in_step.release()

    def wait_for_planning(self) -> None:
        """Wait for the plan that is being made, which is adopted in its own time."""
        self._thread.wait()

    def finish_planning(self) -> None:
        """Wait for the plan that is being made, and adopt it; outside of a step."""
        self._adopt_if_ready(wait=True)

    def _learn(self, end: StepEnd, *, completed: bool) -> None:
        figures = self.allocator.figures()
        ends = [self._between, end]
        for one in ends:
            self._count(one)
        as_planned = all(map(_is_as_planned, ends))
        is_known = as_planned and self._quiet_logs >= QUIET_LOGS
        if not completed or is_known or (not as_planned and self._skips()):
            self.allocator.drop_log()
            self._record.lose_track()
            if is_known and self.book is not None:
                self._record.saw([self.book.numbers[one.kind] for one in ends if one.kind >= 0])
            return
        known = self._record.version
        self._record.add(self.allocator.take_log(), self._in_log)
        self.logs_read += 1
        self._look_for_guests(is_in_the_way=any(one.in_use for one in ends))
        if self._record.version > known:
            self._vain_logs = self._quiet_logs = 0
        else:
            self._vain_logs += not as_planned
            self._quiet_logs += 1
            if self._quiet_logs == QUIET_LOGS and self.book is not None:
                # By now has ended what lay where it was before the plan.
                self.allocator.give_back()
        self._in_log = self.book.numbers if self.book else []
        self.persisting_bytes = figures.allocated_bytes - self._record.live_bytes()

    def _look_for_guests(self, *, is_in_the_way: bool) -> None:
        """Note what lies in the arena for good and is in the way, such as an optimizer's state."""
        older, oldest = self._newest[-1], self._newest[0]
        self._newest.append(self._record.newest_request)
        if self.book is None or not is_in_the_way:
            return
        blocks = self.allocator.blocks_in_arena()
        offset, request, kind = blocks[:, 0], blocks[:, 2], blocks[:, 3]
        stays = self._record.stays(np.ascontiguousarray(request)).view(np.bool_)
        # A younger block may be freed soon.
        is_guest = ((kind < 0) | stays) & (request <= older)
        is_guest |= ~self.book.has_at_places(blocks) & (request <= oldest)
        is_guest |= np.isin(offset, self._guests[:, 0]) & (request <= self._youngest_guest)
        is_guest &= offset < self.book.arena_bytes
        self._guests = blocks[is_guest, :2]
        self._youngest_guest = int(request[is_guest].max(initial=-1))
        self._guests_changed = not np.array_equal(self._guests, self.book.problem.guests)

    def _count(self, end: StepEnd) -> None:
        if self.book is None or end.kind < 0:
            return
        served = end.planned + end.escaping
        of = self.served.setdefault(self.book.numbers[end.kind], [0, 0])
        of[0] += served
        of[1] += served + end.in_use + end.grown + end.unexpected

    def _judge_step(self, reserved_peak: int) -> None:
        """Drop a book that does not serve the program; see `BookJudge`."""
        figures = self.allocator.figures()
        self._judge.saw(
            is_known=self._record.knew_last_step,
            fallback_bytes=figures.fallback_bytes,
            step_bytes=figures.step_bytes,
            is_wasteful=self.book is not None
            and not self._judge.is_little_above(reserved_peak, figures.live_peak),
            is_outdated=self._waiting is not None,
        )
        if self.book is not None and self._judge.is_in_the_way:
            self._do_without()

    def _do_without(self) -> None:
        """Serve without a book for a while."""
        if self.book is not None:
            self.allocator.drop_book()
        self.book = self._waiting = None
        self._in_log = []
        self._guests, self._youngest_guest = NO_GUESTS, -1
        self._judge.pause()

    def _skips(self) -> bool:
        """Return True if a log is left unread, because the logs before it taught nothing."""
        if self._vain_logs < VAIN_LOGS:
            self._interval = VAIN_LOGS
            return False
        if self._step % self._interval:
            return True
        self._interval = min(2 * self._interval, LONGEST_INTERVAL)
        return False

    def _plan_if_new(self) -> None:
        is_known = self._record.version <= self._planned_version and not self._guests_changed
        # A book that was dropped knew as much.
        is_known = is_known and (self.book is not None or not self.plans)
        if is_known or not self._judge.may_plan or self._step < self._planned_at + self._wait:
            return
        if self._thread.is_busy:
            if self._improved is not None:
                self._thread.interrupt()
            return
        # The program goes on learning meanwhile.
        records = self._record.kinds(REPEATED)

        def kinds() -> list[StepKind]:
            return list(map(StepKind.of, records))

        guests, self._guests_changed = self._guests, False
        self._planned_version = self._record.version
        self._judge_last()
        if self._planning == "beside":
            self._thread.start(lambda: self._plan_soon(kinds(), guests))
        else:
            self._adopt_what(lambda: self._plan(kinds(), guests, self._budget))

    def _judge_last(self) -> None:
        """Wait longer where plans follow one another and serve no better."""
        fallback = self.allocator.figures().fallback_bytes
        steps = max(self._step - self._planned_at, 1)
        bytes_a_step = (fallback - self._bytes_at_plan) / steps
        # Without a book nothing is served, neither better nor worse.
        if self.book is not None:
            is_better = bytes_a_step < self._bytes_a_step
            self._wait = 1 if is_better else min(2 * self._wait, LONGEST_WAIT)
            self._bytes_a_step = bytes_a_step
        self._bytes_at_plan, self._planned_at = fallback, self._step

    def _plan(
        self, kinds: Sequence[StepKind], guests: NDArray[np.int64], budget: Budget
    ) -> ReadyBook:
        book = plan_book(kinds, self._planner, budget, self._least_peak, guests)
        return ReadyBook(book, book.core_book())

    def _plan_soon(self, kinds: Sequence[StepKind], guests: NDArray[np.int64]) -> ReadyBook:
        """Return a plan that is not the best there is, if there is one soon."""
        limit = self._budget.time_limit_seconds
        if limit is None or limit > SOON_SECONDS:
            soon = replace(self._budget, time_limit_seconds=SOON_SECONDS)
            try:
                return self._plan(kinds, guests, soon)
            except GaplessError:
                pass  # With more time there may be one.
        return self._plan(kinds, guests, self._budget)

    def _adopt_if_ready(self, *, wait: bool = False) -> None:
        if self._improved is not None:
            self._adopt_if_better(self._improved, wait=wait)
            return
        plans = self.plans
        waiting = self._waiting
        self._adopt_what(lambda: self._thread.take(wait=wait) or waiting)
        book = self.book
        if self.plans > plans and book is not None and book.gap > MUCH:
            self._improved = book
            problem = book.problem
            self._thread.start(lambda: self._plan(problem.kinds, problem.guests, self._budget))

    def _adopt_if_better(self, former: Book, *, wait: bool) -> None:
        """Adopt what more time has made of a plan, where it saves enough."""
        try:
            better = self._thread.take(wait=wait)
        except (GaplessError, KeyboardInterrupt):
            better = None
        if self._thread.is_busy:
            return
        self._improved = None
        saved = 0 if better is None else former.arena_bytes - better.plan.arena_bytes
        if former is self.book and saved > MUCH * former.arena_bytes:
            self._adopt_what(lambda: better)

    def _adopt_what(self, make: Callable[[], ReadyBook | None]) -> None:
        """Adopt what is made; whatever is in its way, training goes on as before."""
        try:
            waiting = self._waiting
            made = make()
            if made is None or (self.plans and not self._judge.may_plan):
                return
            self._waiting = None
            book = made.plan
            outside = self.persisting_bytes - book.guest_bytes
            live = self.allocator.figures().live_peak
            if not self._judge.is_little_above(book.arena_bytes + outside, live):
                if self.book is None and self._may_wait():
                    # The first steps of a program seldom have all that will live. Sizes of the
                    # moment are news in each step, and their plans would all be too large.
                    if made is not waiting:
                        self._wait = min(2 * self._wait, LONGEST_WAIT)
                    self._waiting = made
                    return
                self._do_without()
                self._go_on(
                    f"an arena of {exact_bytes(book.arena_bytes)} bytes, with "
                    f"{exact_bytes(outside)} outside of it, would be more than the "
                    f"{exact_bytes(live)} that ever lived"
                )
                return
            if self._waits_for_room(book, outside):
                self._waiting = made
                return
            self.allocator.adopt_book(made.core_book)
        except KeyboardInterrupt:
            # Whoever goes on after it gets the plan that was on its way.
            self._planned_version = 0
            raise
        except (MemoryError, OSError) as error:
            self._go_on(f"an arena cannot be had: {error}")
        except Exception as error:  # a planner may be anybody's
            self._go_on(str(error))
        else:
            self._follow(book)
            self.reason = ""

    def _waits_for_room(self, book: Book, outside_later: int) -> bool:
        """Return whether to adopt a book later.

        What has a place in the new arena may lie elsewhere yet, as gradients do that several steps
        add to: until they are freed, their places are memory beside them.
        """
        figures = self.allocator.figures()
        outside = figures.allocated_bytes - int(self.allocator.blocks_in_arena()[:, 1].sum())
        above = min(outside - outside_later, book.arena_bytes + outside - figures.live_peak)
        if above <= max(ROOM_ABOVE_LIVE * figures.live_peak, LEAST_ROOM):
            return False
        return self._may_wait()

    def _may_wait(self) -> bool:
        """Return whether a book may wait for one more step."""
        if self._patience == 0:
            return False
        self._patience -= 1
        return True

    def _follow(self, book: Book) -> None:
        if self.book is None:
            self._wait = 1
        numbers = self.book.numbers if self.book else []
        # A block that the former book placed is logged under the former numbers when it is freed.
        # Kinds keep their places as long as no kind is forgotten; the next log then says nothing of
        # older requests.
        same = book.numbers[: len(numbers)] == numbers
        self._in_log = book.numbers if same else []
        self.book = book
        self.plans += 1
        self._patience = LONGEST_PATIENCE
        self._quiet_logs = 0

    def _go_on(self, reason: str) -> None:
        if not self.plans:
            self._wait = min(2 * self._wait, LONGEST_WAIT)
        if reason != self.reason:
            self.reason = reason
            warnings.warn(
                f"training goes on without a new plan: {reason}", RuntimeWarning, stacklevel=8
            )


def _is_as_planned(end: StepEnd) -> bool:
    return not (end.grown or end.unexpected or end.missing or end.in_use)
