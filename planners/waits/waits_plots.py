"""Pictures of a frontier of bytes against waits, which installed packages draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from planners.waits.waits_frontier import WaitsPoint


@dataclass(frozen=True)
class WaitsPlot:
    """A kind of picture of a frontier; ``suffixes`` are the endings that its file may have."""

    draw: Callable[[Sequence[WaitsPoint], Path], None]
    suffixes: tuple[str, ...]
