"""A search for the waits that lower the heaviest antichain most."""

from __future__ import annotations

import numpy as np

from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.waits.candidate_waits import candidate_waits
from planners.waits.saved_bytes import saved_bytes
from planners.waits.waiting_streams import Wait, WaitingStreams, Waits

# Waits whose antichain is computed before one is added, and that a round adds and takes away again.
# Guesses.
MOST_TRIED = 8
MOST_EXCHANGED = 3


class WaitSearch:
    """The best set of each number of waits, found from fewer waits to more.

    Note: one witness shows where to wait.
    Rationale: with hundreds of candidates and antichains of seconds, not all can be tried.
    Approach: no set lowers the antichain unless it orders two tensors of its witness. The waits
    that save most of the witness are tried, and the best is added. A round adds a few waits to the
    best set and takes away those that are missed least, until a round no longer helps.
    Limits: a heuristic. Where several antichains are as heavy, the first waits lower nothing.
    """

    def __init__(self, streams: WaitingStreams, budget: Budget) -> None:
        self._streams = streams
        self._budget = budget
        self.candidates = candidate_waits(streams)
        self._antichains: dict[Waits, tuple[int, IntColumn]] = {}
        self._path: list[Waits] = [frozenset()]
        self._best: list[Waits] = [frozenset()]

    def best(self, count: int) -> Waits:
        """Return the best set of at most so many waits that the budget of each number finds."""
        while len(self._best) <= count:
            self._timed = self._budget.started()
            found = self._best[-1]
            try:
                self._path.append(self._extended(self._path[-1], 1))
                starts = [self._path[-1], self._extended(found, len(self._best) - len(found))]
                for start in starts:
                    found = min(found, start, key=self._bytes)
                found = self._exchanged(found, len(self._best))
            except TimeoutError:
                # What was found so far is the answer, because more waits never cost bytes.
                found = min(found, self._path[-1], key=self._bytes)
            self._best.append(found)
        return self._best[count]

    def _bytes(self, waits: Waits) -> int:
        return self._antichain(waits)[0]

    def _antichain(self, waits: Waits) -> tuple[int, IntColumn]:
        if waits not in self._antichains:
            if self._timed.remaining_seconds() == 0:
                raise TimeoutError
            self._antichains[waits] = self._streams.antichain(waits)
        return self._antichains[waits]

    def _exchanged(self, waits: Waits, count: int) -> Waits:
        """Return the set after rounds that add a few waits and take away as many."""
        more = 1
        while more <= MOST_EXCHANGED and self._bytes(waits) > self._streams.least.bytes:
            other = self._extended(waits, count - len(waits) + more)
            while len(other) > count:
                other = min((other - {wait} for wait in sorted(other)), key=self._bytes)
            is_better = self._bytes(other) < self._bytes(waits)
            waits, more = (other, 1) if is_better else (waits, more + 1)
        return waits

    def _extended(self, waits: Waits, count: int) -> Waits:
        for _ in range(count):
            if self._bytes(waits) <= self._streams.least.bytes:
                break
            tried: list[Waits] = []
            try:
                for wait in self._promising(waits):
                    tried.append(waits | {wait})
                    self._bytes(tried[-1])
            except TimeoutError:
                tried.pop()
                if not tried:
                    raise
            waits = min(tried, key=self._bytes, default=waits)
        return waits

    def _promising(self, waits: Waits) -> list[Wait]:
        """Return the candidates that save most of the heaviest antichain, the best first."""
        witness = self._antichain(waits)[1]
        alone, most = saved_bytes(self._streams, waits, witness, self.candidates)
        # Where users of several streams hold a tensor, only several waits save anything.
        order = np.lexsort((-most, -alone))[:MOST_TRIED]
        return [self.candidates[each] for each in order.tolist() if most[each]]
