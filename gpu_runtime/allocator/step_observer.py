"""Observes the steps of a program: reads their logs, and records what they show."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_runtime._core import PlannedAllocator, ProgramRecord, StepEnd, TrialTerms
from gpu_runtime.allocator.arena_guests import ArenaGuests
from gpu_runtime.allocator.book import Book
from gpu_runtime.allocator.book_adoption import BookTrial
from gpu_runtime.allocator.recent_steps import RecentSteps
from gpu_runtime.allocator.step_kind import StepKind

# After this many logs without news, the logs of steps that go as planned are dropped unread. One
# log is not enough, since its frees tell of the steps before. A guess.
QUIET_LOGS = 8
# After this many logs without news of other steps, the log of every 16th step is read, then of
# every 32nd, up to the longest interval. Guesses.
VAIN_LOGS = 16
LONGEST_INTERVAL = 256


class StepObserver:
    """Observes the steps of an allocator, under the book in force or under none."""

    def __init__(self, allocator: PlannedAllocator, kinds: Sequence[StepKind] = ()) -> None:
        self.record = ProgramRecord([kind.record() for kind in kinds])
        self.guests = ArenaGuests()
        # Bytes in use after the last log, without the blocks of slots of known kinds.
        self.persisting_bytes = 0
        # By number of a kind: the requests of its steps that the plan served or expected, and all.
        self.served: dict[int, list[int]] = {}
        self.logs_read = 0
        self._allocator = allocator
        self._recent = RecentSteps()
        self._book: Book | None = None
        # Numbers of the kinds that the rows of the next log name by their index.
        self._in_log: list[int] = []
        self._steps = 0
        self._quiet_logs = self._vain_logs = 0
        self._interval = VAIN_LOGS
        self._was_as_planned = False

    def follow(self, book: Book | None) -> None:
        """Note that another book is in force from now on, or none."""
        numbers = self._book.numbers if self._book else []
        new = book.numbers if book else []
        # The log of a free names the kind by its index in the book that placed the block. Kinds
        # keep their index unless one was forgotten; then the next log cannot be attributed.
        self._in_log = new if new[: len(numbers)] == numbers else []
        self._book = book
        self._quiet_logs = 0

    def saw(self, between: StepEnd, end: StepEnd, *, completed: bool) -> bool:
        """Take the ends of a step and of the time before it; return True if both were planned."""
        ends = [between, end]
        self._steps += 1
        for one in ends:
            self._count(one)
        as_planned = all(map(_is_as_planned, ends))
        is_known = as_planned and self._was_as_planned and self._quiet_logs >= QUIET_LOGS
        self._was_as_planned = as_planned
        if not completed or is_known or (not as_planned and self._skips()):
            self._allocator.drop_log()
            self.record.lose_track()
            self._recent.lose_track()
            if is_known and self._book is not None:
                self.record.saw([self._book.numbers[one.kind] for one in ends if one.kind >= 0])
        else:
            self._read(is_in_use=any(one.in_use for one in ends), as_planned=as_planned)
        return as_planned

    def trial(self) -> BookTrial:
        """Return a trial of books on the steps that were read last."""
        figures, allocator = self._allocator.figures(), self._allocator
        terms = TrialTerms(
            allocator.page_bytes, allocator.is_plain, figures.allocated_bytes, figures.live_peak
        )
        return BookTrial(self._recent.logs, terms, self.guests.rows)

    def _read(self, *, is_in_use: bool, as_planned: bool) -> None:
        figures = self._allocator.figures()
        known = self.record.version
        log = self._allocator.take_log()
        self.record.add(log, self._in_log)
        self._recent.add(log)
        self.logs_read += 1
        # Blocks stay in an arena whose book went, and are in the way of the next book.
        wanted = is_in_use or self._book is None
        self.guests.look(self._allocator, self.record, self._book, wanted=wanted)
        if self.record.version > known:
            self._vain_logs = self._quiet_logs = 0
        else:
            self._vain_logs += not as_planned
            self._quiet_logs += 1
        self._in_log = self._book.numbers if self._book else []
        self.persisting_bytes = figures.allocated_bytes - self.record.live_bytes()

    def _count(self, end: StepEnd) -> None:
        if self._book is None or end.kind < 0:
            return
        served = end.planned + end.escaping
        of = self.served.setdefault(self._book.numbers[end.kind], [0, 0])
        of[0] += served
        of[1] += served + end.in_use + end.grown + end.unexpected

    def _skips(self) -> bool:
        """Return True if the log of an unplanned step is dropped."""
        if self._vain_logs < VAIN_LOGS:
            self._interval = VAIN_LOGS
            return False
        if self._steps % self._interval:
            return True
        self._interval = min(2 * self._interval, LONGEST_INTERVAL)
        return False


def _is_as_planned(end: StepEnd) -> bool:
    return not (end.grown or end.unexpected or end.missing or end.in_use)
