"""Searches in threads of their own, beside a main search that runs as if it were alone.

Note [Side searches]
~~~~~~~~~~~~~~~~~~~~
*What runs.* The main search equals the search of a single thread, with the same seed and limits.
Each further thread begins with the best plan that the main search has by then. It runs those
searches whose result depends on a seed, with another seed. Long calls of the core run in parallel.

*Why it is never worse.* The main search keeps its whole limit, and a plan of another thread counts
only if its peak is lower. No thread learns what another one found before all have ended, because a
better plan to start from may lead to a worse end.

*Why it repeats.* A node limit holds for each thread separately, and all threads run to their ends.
Of equal peaks the first thread's plan counts. Only if the main search meets its goal, or proves
that no plan can, are the others stopped. Then their plans do not count, because their progress
depends on the load.

*With a time limit* the first thread that meets the goal ends all.

*What threads share* is the problem. Its cached data is computed before the threads start, or is the
same whichever thread computes it; its bounds have a lock.

*Limits.* With fewer cores than threads, the main search gets less of a time limit. If much of the
work is Python's own, this holds with enough cores too. Exact searches are not divided, so a proof
comes no sooner. Every thread takes as much memory as the main search.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from dataclasses import replace

from planners import _core
from planners.exact.interruptible import POLL_SECONDS
from planners.search.incumbent import Incumbent

Improve = Callable[[Incumbent], object]
"""Improves an incumbent until it is over; may end with ``TimeoutError``."""


def search_in_threads(main: Incumbent, threads: int, search: Improve, beside: Improve) -> None:
    """Improve an incumbent by one search, and by another in each further thread."""
    if threads == 1:
        search(main)
    else:
        _Threads(main, threads - 1, beside).run(search)


class _Threads:
    def __init__(self, main: Incumbent, count: int, beside: Improve) -> None:
        self._main = main
        self._repeats = main.budget.deadline == math.inf
        self._stop_main, self._stop_sides = _core.StopSignal(), _core.StopSignal()
        self._sides = [
            _Side(main, number, beside, self._stop_sides, self._tell_main)
            for number in range(2, count + 2)
        ]

    def run(self, search: Improve) -> None:
        main = self._main
        main.ended_outside = lambda: self._stop_main.given
        self._stop_main.take()
        try:
            for side in self._sides:
                side.thread.start()
            search(main)
            if self._repeats and not main.is_decided:
                self._wait()
        except TimeoutError:
            if not self._stop_main.given:
                raise
        finally:
            _core.StopSignal.drop()
            self._stop_sides.give()
            self._wait()
            self._take_better()
        for side in self._sides:
            if side.error is not None:
                raise side.error

    def _tell_main(self, side: Incumbent) -> None:
        if side.is_decided and not self._repeats:
            self._stop_main.give()

    def _wait(self) -> None:
        for side in self._sides:
            while side.thread.is_alive():
                side.thread.join(POLL_SECONDS)

    def _take_better(self) -> None:
        if self._main.is_decided:
            return
        for side in self._sides:
            found = side.incumbent
            self._main.take_from(found, f"{found.found_by}, thread {side.number}")
            self._main.count += side.spent


class _Side:
    """A thread with an incumbent and a seed of its own."""

    def __init__(
        self,
        main: Incumbent,
        number: int,
        search: Improve,
        stop: _core.StopSignal,
        tell: Improve,
    ) -> None:
        self.number = number
        self.error: Exception | None = None
        seed = random.Random(f"{main.budget.seed} {number}").getrandbits(31)
        self.incumbent = main.apart(replace(main.budget, seed=seed))
        self.incumbent.ended_outside = lambda: stop.given
        self._search, self._stop, self._tell = search, stop, tell
        self.thread = threading.Thread(target=self._run, daemon=True)

        self._begun_with = main.count

    @property
    def spent(self) -> int:
        """Attempts and nodes of this thread."""
        return self.incumbent.count - self._begun_with

    def _run(self) -> None:
        self._stop.take()
        try:
            self._search(self.incumbent)
        except TimeoutError:
            pass
        except Exception as error:  # raised again in the main thread
            self.error = error
        self._tell(self.incumbent)
