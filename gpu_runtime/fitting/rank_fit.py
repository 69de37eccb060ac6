"""The memory that one process of a training needs under each allocator, and if a GPU has it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runtime.fitting.graph_pools import CapturedGraph
from gpu_runtime.fitting.live_peak import LivePeak
from gpu_runtime.fitting.outside_memory import OutsideMemory
from gpu_runtime.fitting.traced_program import Traced

# Label of the row of live bytes, below which no allocator can reserve.
LIVE = "live"
# The names of PyTorch's own allocators begin with this.
_PYTORCH = "pytorch-"


class Fits(enum.Enum):
    """The answer to the question if a program fits into a memory."""

    YES = "yes"
    ONLY_PLANNED = "only_planned"
    NO = "no"


@dataclass(frozen=True)
class AllocatorFit:
    """The memory that a program needs under one allocator."""

    # Name and parameters as on the command line, or :data:`LIVE`.
    label: str
    # Peak of reserved bytes on a device with more than enough memory.
    reserved_peak: int
    # True if the program runs in the given room; None if no room is given.
    fits: bool | None
    # The peak in each of :data:`PARTS`.
    parts: tuple[int, ...] = ()

    def gives_back(self, room: int | None) -> bool:
        """Return True if the program runs only because idle memory goes back to the device."""
        return room is not None and self.fits is True and self.reserved_peak > room


@dataclass(frozen=True)
class RankFit:
    """The memory of one process: the only one, or one of several."""

    traced: Traced
    peak: LivePeak
    # The row of :data:`LIVE`, then one row an allocator.
    rows: tuple[AllocatorFit, ...]
    outside: OutsideMemory
    # Bytes of the GPU; None if the user gave no limit.
    memory: int | None = None
    # In the order of their captures, under the first allocator.
    graphs: Sequence[CapturedGraph] = ()

    @property
    def room(self) -> int | None:
        """The bytes of the GPU that PyTorch's allocator may take; None without a limit."""
        return None if self.memory is None else self.outside.room_in(self.memory)

    @property
    def labels(self) -> list[str]:
        return [row.label for row in self.rows]

    def row(self, label: str) -> AllocatorFit:
        return next(row for row in self.rows if row.label == label)

    @property
    def fitting(self) -> list[str]:
        """Labels of the allocators under which it fits."""
        return [row.label for row in self.rows if row.fits and row.label != LIVE]

    @property
    def answer(self) -> Fits:
        """YES if an allocator of PyTorch's fits, ONLY_PLANNED if only another one does, else NO."""
        if any(map(is_pytorch, self.fitting)):
            return Fits.YES
        return Fits.ONLY_PLANNED if self.fitting else Fits.NO


def is_pytorch(label: str) -> bool:
    """Return True if an allocator is one of PyTorch's own."""
    return label.startswith(_PYTORCH)


def worst_rank(every: Sequence[RankFit]) -> RankFit:
    """Return the rank that fits the least, of those the one with the most live bytes."""
    return max(every, key=lambda one: (list(Fits).index(one.answer), one.peak.size))
