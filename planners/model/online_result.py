"""The result of an online allocator on the requests of a run."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from planners.model.columns import IntColumn
from planners.model.problem import Scalar
from planners.model.rules import take_capacity

# Calls in which the host waits until the device is done.
WAITING_CALLS = ("synchronize", "await_event")


class OnlineDevice(enum.StrEnum):
    """The device from which an online allocator takes its memory."""

    # A ledger: accounts without memory.
    LEDGER = "ledger"
    # Simulated device memory on the host.
    SIMULATED = "simulated"
    # The first GPU.
    CUDA = "cuda"


@dataclass(frozen=True)
class OnlineTerms:
    """The conditions under which an online allocator serves a sequence of requests."""

    device: OnlineDevice = OnlineDevice.LEDGER
    # Bytes of the device; None for more than the run requests.
    capacity: int | None = None
    # True if the sums after each row are wanted.
    has_series: bool = False
    # True if every block is stamped and compared, on a device with memory.
    is_verified: bool = False

    def __post_init__(self) -> None:
        take_capacity(self.capacity)


@dataclass(frozen=True, eq=False)
class OnlineResult:
    """Peaks, calls and time of an online allocator over a sequence of requests.

    Parameters
    ----------
    requested_peak, allocated_peak, reserved_peak
        Peaks in bytes: as requested, in blocks of live requests, and taken from the device.
    device_calls
        Number of device calls of each kind; kinds without calls are left out.
    seconds
        Time in the allocator.
    out_of_memory_row
        The row at which the device had no memory and the run ended; None if it had enough.
    device_seconds
        The part of ``seconds`` in device calls, by kind; empty if calls were not timed. Calls that
        are not counted by kind are ``other``.
    last_iteration_seconds
        Time in the allocator since the begin of the last iteration, in which a run repeats what
        it did before; 0 if the run did not reach it, all of it if no iterations are marked.
    iteration_calls
        Number of device calls in each marked iteration, by kind.
    reserved, allocated
        Bytes after each row, if wanted; int64.
    addresses
        The address of each request; int64, 0 if it was not served. Empty if not known.
    segments
        Rows ``(row, address, bytes)`` of the memory that the device gave; int64.
    not_done
        The reason if the allocator did not work as its name says, such as without a plan; else
        empty.
    statistics
        Further figures of the allocator, such as the bytes of its parts.
    """

    requested_peak: int
    allocated_peak: int
    reserved_peak: int
    device_calls: Mapping[str, int]
    seconds: float
    out_of_memory_row: int | None = None
    device_seconds: Mapping[str, float] = field(default_factory=dict)
    last_iteration_seconds: float = 0.0
    iteration_calls: Sequence[Mapping[str, int]] = ()
    reserved: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    allocated: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    addresses: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    segments: IntColumn = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    not_done: str = ""
    statistics: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def efficiency(self) -> float:
        """Peak allocated divided by peak reserved bytes; 1 if nothing was reserved."""
        return self.allocated_peak / self.reserved_peak if self.reserved_peak else 1.0

    @property
    def fragmentation(self) -> float:
        """The share of the peak of reserved bytes above the peak of allocated bytes."""
        return 1 - self.efficiency

    @property
    def stalls(self) -> int:
        """Number of host waits for the device."""
        return sum(self.device_calls.get(name, 0) for name in WAITING_CALLS)

    @property
    def device_share(self) -> float:
        """The share of the time in the allocator that device calls took."""
        return sum(self.device_seconds.values()) / self.seconds if self.seconds else 0.0

    def microseconds_an_event(self, rows: int) -> float:
        """Return the mean time in the allocator for each row that it served."""
        served = rows if self.out_of_memory_row is None else self.out_of_memory_row
        return 1e6 * self.seconds / served if served else 0.0

    def microseconds_a_call(self, kind: str) -> float:
        """Return the mean time of a device call of one kind, which must have occurred."""
        return 1e6 * self.device_seconds[kind] / self.device_calls[kind]

    @property
    def call_count(self) -> int:
        """Number of device calls."""
        return sum(self.device_calls.values())
