"""All that was found about a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpu_runtime.fitting.fewest_ranks import FewestRanks
from gpu_runtime.fitting.frontier import Frontier
from gpu_runtime.fitting.largest_value import LargestValues
from gpu_runtime.fitting.rank_fit import RankFit, worst_rank
from gpu_runtime.fitting.remedies import Remedies


@dataclass
class FitAnswer:
    """The memory of a program, and the searches that a user asked for; None for the others."""

    # One of each kind of rank; of a program that is alone, one.
    every: Sequence[RankFit]
    found: LargestValues | None = None
    frontier: Frontier | None = None
    fewest: FewestRanks | None = None
    remedies: Remedies | None = None
    # Groups of live blocks at the peak that tables show.
    groups: int = 0

    @property
    def worst(self) -> RankFit:
        return worst_rank(self.every)


@dataclass(frozen=True)
class FitPicture:
    """A picture of an answer, which an installed package offers in the group ``gapless.plots``.

    ``draw`` writes no file if the search that it shows found nothing.
    """

    draw: Callable[[FitAnswer, Path], None]
    suffixes: tuple[str, ...]


@dataclass(frozen=True)
class FitPage(FitPicture):
    """A page of a whole answer."""

    extra: ClassVar[str] = "report"
