"""Checks if the requests of a trace fit into a memory, under each of several allocators."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_runtime.fitting.live_peak import LivePeak, find_live_peak
from gpu_runtime.fitting.outside_memory import OutsideMemory
from gpu_runtime.fitting.traced_program import Traced
from instances.traces.allocation_trace import AllocationTrace
from instances.traces.trace_requests import requests_of_trace
from planners.errors import GaplessError, InstanceError
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.online.online_run import run_online
from planners.registry import ChosenOnline

# Label of the row of live bytes, below which no allocator can reserve.
LIVE = "live"
# The names of PyTorch's own allocators begin with this.
PYTORCH = "pytorch-"


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

    def gives_back(self, room: int | None) -> bool:
        """Return True if the program runs only because idle memory goes back to the device."""
        return room is not None and self.fits is True and self.reserved_peak > room


@dataclass(frozen=True)
class FitCheck:
    """The memory that a program needs under several allocators."""

    trace: AllocationTrace
    peak: LivePeak
    # The row of :data:`LIVE`, then one row an allocator.
    rows: tuple[AllocatorFit, ...]

    @property
    def fitting(self) -> list[str]:
        """Labels of the allocators under which it fits."""
        return [row.label for row in self.rows if row.fits and row.label != LIVE]

    @property
    def answer(self) -> Fits:
        """YES if an allocator of PyTorch's fits, ONLY_PLANNED if only another one does, else NO."""
        if any(label.startswith(PYTORCH) for label in self.fitting):
            return Fits.YES
        return Fits.ONLY_PLANNED if self.fitting else Fits.NO


@dataclass(frozen=True)
class RankFit:
    """The memory of one process: the only one, or one of several."""

    traced: Traced
    check: FitCheck
    outside: OutsideMemory
    # The bytes of the GPU that PyTorch's allocator may take; None if the user gave no limit.
    room: int | None


def worst_rank(every: Sequence[RankFit]) -> RankFit:
    """Return the rank that fits the least, of those the one with the most live bytes."""
    answers = list(Fits)
    return max(every, key=lambda one: (answers.index(one.check.answer), one.check.peak.size))


def check_fit(
    trace: AllocationTrace,
    allocators: Sequence[ChosenOnline],
    room: int | None,
    on_start: Callable[[str], None] = lambda _label: None,
) -> FitCheck:
    """Replay a trace under each allocator with more than enough memory.

    An allocator that reserves more than the given room is replayed in that room as well: when
    memory runs out, it gives idle memory back and tries again, as PyTorch does.
    """
    requests = requests_of_trace(trace)
    if not requests.request_count:
        raise InstanceError(f"{trace.name}: at least one request for memory is needed, found none")
    peak = find_live_peak(trace)
    rows = [AllocatorFit(LIVE, peak.size, None if room is None else peak.size <= room)]
    for allocator in allocators:
        on_start(allocator.label)
        reserved = _replay(requests, allocator, None).reserved_peak
        fits = None if room is None else reserved <= room
        # No allocator can run in less than the live bytes.
        if room is not None and not fits and rows[0].fits:
            fits = _replay(requests, allocator, room).out_of_memory_row is None
        rows.append(AllocatorFit(allocator.label, reserved, fits))
    return FitCheck(trace, peak, tuple(rows))


def _replay(
    requests: RequestSequence, allocator: ChosenOnline, capacity: int | None
) -> OnlineResult:
    run = run_online(requests, [allocator], OnlineTerms(capacity=capacity))
    if run.left_out:
        raise KeyboardInterrupt
    (row,) = run.rows
    if row.result is None:
        raise GaplessError(f"{row.label}: {row.reason}")
    return row.result
