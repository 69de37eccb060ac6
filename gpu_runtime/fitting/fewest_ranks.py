"""From how many GPUs on a distributed training fits: its number of processes is doubled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpu_runtime.fitting.rank_fit import AllocatorFit, RankFit
from gpu_runtime.fitting.traced_program import RANKS, Changes
from planners.errors import InstanceError

# The largest number of processes that is tried; a guess.
MOST_RANKS = 1024


@dataclass
class FewestRanks:
    """The numbers of processes that were tried, ascending, each with its worst rank."""

    tried: dict[int, RankFit]
    # Why no larger number was tried; empty if all fits, or at `MOST_RANKS`.
    ended: str = ""

    def rows(self, label: str) -> dict[int, AllocatorFit]:
        """Return the row of an allocator by the number of processes."""
        return {ranks: fit.row(label) for ranks, fit in self.tried.items()}

    def fewest(self, label: str) -> int | None:
        """Return the number from which on all that were tried fit."""
        fewest = None
        for ranks, row in reversed(self.rows(label).items()):
            if not row.fits:
                break
            fewest = ranks
        return fewest


def search_fewest_ranks(fewest: FewestRanks, check: Callable[[Changes], RankFit]) -> None:
    """Double the number of processes until it fits under every allocator, or no longer helps."""
    ((ranks, fit),) = fewest.tried.items()
    while not all(row.fits for row in fit.rows) and 2 * ranks <= MOST_RANKS:
        fewer, ranks = fit.rows, 2 * ranks
        try:
            fit = fewest.tried[ranks] = check({RANKS: ranks})
        except InstanceError as error:
            fewest.ended = str(error)
            return
        pairs = zip(fewer, fit.rows, strict=True)
        # One process alone needs no buffers to communicate.
        if ranks > 2 and all(more.reserved_peak >= less.reserved_peak for less, more in pairs):
            fewest.ended = f"{ranks} need as much memory as {ranks // 2}"
            return
