"""What an online allocator made of the requests of a run."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from planners.model.columns import IntColumn
from planners.model.problem import Scalar

# Calls in which the host waits until the device is done.
WAITING_CALLS = ("synchronize", "await_event")


class OnlineDevice(enum.StrEnum):
    """What an online allocator takes its memory from."""

    # Accounts without memory.
    LEDGER = "ledger"
    # Memory of the host.
    SIMULATED = "simulated"
    # The first GPU.
    CUDA = "cuda"


@dataclass(frozen=True)
class OnlineTerms:
    """Under what terms an online allocator serves a sequence of requests."""

    device: OnlineDevice = OnlineDevice.LEDGER
    # Bytes that the device has; None for more than is asked for.
    capacity: int | None = None
    # Whether the sums after each row are wanted.
    has_series: bool = False
    # Whether every block is stamped and looked at, on a device with memory.
    is_verified: bool = False


@dataclass(frozen=True, eq=False)
class OnlineResult:
    """Peaks, calls and time of an online allocator over a sequence of requests.

    Parameters
    ----------
    requested_peak, allocated_peak, reserved_peak
        Most bytes at once: as requested, in blocks of live requests, and taken from the device.
    device_calls
        How often the device was asked, by kind of call; none is 0.
    seconds
        Time in the allocator.
    out_of_memory_row
        The row at which the device had no memory, where the run ended; None where it had enough.
    device_seconds
        Of these in calls to the device, by kind of call; empty where they were not timed. What was
        asked beside the counted calls is ``other``.
    last_iteration_seconds
        Time in the allocator from the begin of the last iteration on, in which a run repeats what
        it did before; 0 where that was not reached, all of it where nothing marks iterations.
    reserved, allocated
        Bytes after each row, where they were wanted; int64.
    addresses
        Where each request was served; int64, 0 where it was not. Empty where that is not told.
    segments
        Rows ``(row, address, bytes)`` of what the device gave; int64.
    not_done
        Why the allocator did not do what its name says, such as to plan; empty where it did.
    statistics
        What else an allocator tells of how it served, such as the bytes of its parts.
    """

    requested_peak: int
    allocated_peak: int
    reserved_peak: int
    device_calls: Mapping[str, int]
    seconds: float
    out_of_memory_row: int | None = None
    device_seconds: Mapping[str, float] = field(default_factory=dict)
    last_iteration_seconds: float = 0.0
    reserved: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    allocated: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    addresses: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    segments: IntColumn = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    not_done: str = ""
    statistics: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def efficiency(self) -> float:
        """Peak allocated by peak reserved bytes; 1 where nothing was reserved."""
        return self.allocated_peak / self.reserved_peak if self.reserved_peak else 1.0

    @property
    def fragmentation(self) -> float:
        """Share of the peak of reserved bytes above the peak of allocated ones."""
        return 1 - self.efficiency

    @property
    def stalls(self) -> int:
        """How often the host waited for the device."""
        return sum(self.device_calls.get(name, 0) for name in WAITING_CALLS)

    @property
    def device_share(self) -> float:
        """Which part of the time in the allocator calls to the device took."""
        return sum(self.device_seconds.values()) / self.seconds if self.seconds else 0.0

    def microseconds_an_event(self, rows: int) -> float:
        """Return the mean time in the allocator over the rows of a run that it was given."""
        served = rows if self.out_of_memory_row is None else self.out_of_memory_row
        return 1e6 * self.seconds / served if served else 0.0

    def microseconds_a_call(self, kind: str) -> float:
        """Return the mean time of a kind of call that there was."""
        return 1e6 * self.device_seconds[kind] / self.device_calls[kind]

    @property
    def call_count(self) -> int:
        """How often the device was asked in all."""
        return sum(self.device_calls.values())
