"""Pictures of a frontier, which installed packages draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from planners.recompute.limit_frontier import FrontierPoint
from planners.recompute.repeatable_step import RepeatableStep


@dataclass(frozen=True)
class FrontierPlot:
    """A kind of picture of a frontier; ``suffixes`` are the endings that its file may have.

    ``draw`` is told whether to show every planner, or the best few.
    """

    draw: Callable[[RepeatableStep, Sequence[FrontierPoint], bool, Path], None]
    suffixes: tuple[str, ...]
