"""Decides when a book of plans is adopted, when it goes, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import Book as CoreBook
from gpu_runtime._core import TrialOutcome, TrialTerms, try_book
from gpu_runtime.allocator.book import Book
from planners.text.byte_units import exact_bytes

# Reserved bytes that differ by at most this share of the live peak plus this many pages count as
# equal, and so do device calls that differ by at most this many. The share is that of Note [Memory
# in bounds]; the pages are a guess.
EQUAL_SHARE = 1 / 256
EQUAL_PAGES = 16


@dataclass(frozen=True)
class Decision:
    """The book for the next steps; None stands for the heap alone."""

    book: Book | None
    # The form of `book` that the allocator adopts; None if `book` is in force already.
    core_book: CoreBook | None = None
    # The reason why a new book is refused; empty if none is.
    reason: str = ""
    # True if this reason needed no trial, because the new book has no places.
    is_too_small: bool = False
    # The reason why the book in force costs more than the heap alone; empty if it does not.
    excess: str = ""


@dataclass(frozen=True)
class BookTrial:
    """Serves the last steps again on a ledger; see Note [A plan that never costs]."""

    logs: Sequence[NDArray[np.int64]]
    terms: TrialTerms
    # Rows ``(offset, bytes, request)`` of blocks that stay in the arena under any book.
    guests: NDArray[np.int64]

    def decide(self, in_force: Book | None, candidate: Book | None) -> Decision:
        """Decide between the book in force, a candidate, and the heap alone.

        A book may serve if it needs no more reserved bytes, device calls and host waits than the
        heap alone, and serves at least as many requests as it misses. A candidate replaces a book
        that may serve if it needs no more than this book, and is better in one way: it needs less,
        serves more requests, or has a smaller arena.
        """
        if in_force is None and candidate is not None and not candidate.arena_bytes:
            return Decision(None, reason=_too_small(candidate), is_too_small=True)
        alone = self._outcome(None)
        excess, kept_outcome = "", alone
        if in_force is not None:
            kept_outcome = self._outcome(in_force.core_book())
            excess = self._excess(kept_outcome, alone)
        if candidate is None or not candidate.arena_bytes:
            return Decision(in_force, excess=excess)
        core_book = candidate.core_book()
        outcome = self._outcome(core_book)
        reason = self._excess(outcome, alone) or _too_few_served(outcome)
        if not reason and (
            in_force is None
            or excess
            or self._is_better(candidate, outcome, in_force, kept_outcome)
        ):
            return Decision(candidate, core_book)
        return Decision(in_force, reason=reason, excess=excess)

    def _outcome(self, book: CoreBook | None) -> TrialOutcome:
        return try_book(list(self.logs), self.terms, book, self.guests)

    def _excess(self, one: TrialOutcome, other: TrialOutcome) -> str:
        """Return the first cost in which one outcome exceeds another; empty if there is none."""
        equal = int(EQUAL_SHARE * self.terms.live_peak) + EQUAL_PAGES * self.terms.page_bytes
        for what, mine, its in (
            ("host waits", one.host_waits, other.host_waits),
            ("device calls", one.memory_calls, other.memory_calls + EQUAL_PAGES),
            ("reserved bytes", one.reserved_peak, other.reserved_peak + equal),
        ):
            if mine > its:
                return f"a plan needs {exact_bytes(mine)} {what} in a trial, not {exact_bytes(its)}"
        return ""

    def _is_better(
        self, candidate: Book, outcome: TrialOutcome, kept: Book, kept_outcome: TrialOutcome
    ) -> bool:
        if self._excess(outcome, kept_outcome):
            return False
        return (
            bool(self._excess(kept_outcome, outcome))
            or outcome.unserved < kept_outcome.unserved
            or candidate.arena_bytes < (1 - EQUAL_SHARE) * kept.arena_bytes
        )


def _too_few_served(outcome: TrialOutcome) -> str:
    """Return a sentence if a plan misses more requests than it serves; empty if not."""
    if outcome.served >= outcome.unserved:
        return ""
    return (
        f"a plan serves {exact_bytes(outcome.served)} requests in a trial and misses "
        f"{exact_bytes(outcome.unserved)}; most steps are not of a kind that was seen twice"
    )


def _too_small(book: Book) -> str:
    most, least = max(book.problem.peaks, default=0), book.problem.least_peak
    return (
        f"the blocks that steps take and free use at most {exact_bytes(most)} bytes at once, and a "
        f"plan needs steps of {exact_bytes(least)} bytes or more"
    )
