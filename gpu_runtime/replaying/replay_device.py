"""The device under an allocator in a replay, and the streams that work in what it hands out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gpu_runtime._core import (
    CountingMemory,
    CudaMemory,
    DeviceMemory,
    LedgerMemory,
    LedgerStreams,
    SegmentLog,
    SimulatedMemory,
)
from gpu_runtime.allocator.call_counts import call_counts
from planners.errors import DeviceError
from planners.model.online_result import OnlineDevice, OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence

PAGE_BYTES = 1 << 21
# Of a device with more memory than is asked for.
LEAST_CAPACITY = 1 << 37
ROOM = 8


@dataclass(frozen=True)
class ReplayDevice:
    """A device, and the same one as an allocator sees it: counted, and with a log of segments."""

    memory: DeviceMemory
    counted: CountingMemory
    logged: SegmentLog
    # A stream works in some bytes from now on, and is done with all it was given; None on a device
    # that cannot be told, where a block is freed when that had completed.
    begin_work: Callable[[int, int, int], None] | None
    end_work: Callable[[int], None] | None

    @property
    def calls(self) -> Mapping[str, int]:
        """How often the device was asked, by kind; the kinds that there were."""
        return call_counts(self.counted.calls)


def open_replay_device(requests: RequestSequence, terms: OnlineTerms) -> ReplayDevice:
    """Return the device that the terms name; ``DeviceError`` where there is none."""
    capacity = terms.capacity or max(LEAST_CAPACITY, ROOM * _requested_peak(requests))
    begin_work: Callable[[int, int, int], None] | None = None
    end_work: Callable[[int], None] | None = None
    memory: DeviceMemory
    if terms.device is OnlineDevice.LEDGER:
        ledger = LedgerMemory(PAGE_BYTES, capacity, LedgerStreams.WHEN_TOLD)
        memory, begin_work, end_work = ledger, _no_bytes, ledger.finish
    elif terms.device is OnlineDevice.SIMULATED:
        simulated = SimulatedMemory(PAGE_BYTES, capacity)
        memory, begin_work, end_work = simulated, simulated.submit, simulated.finish
    else:
        if terms.capacity is not None:
            raise DeviceError("--capacity: a GPU has the memory that it has; leave it out")
        try:
            memory = CudaMemory(0)
        except OSError as error:
            raise DeviceError(f"device cuda: {error}") from None
    counted = CountingMemory(memory)
    return ReplayDevice(memory, counted, SegmentLog(counted), begin_work, end_work)


def _no_bytes(_stream: int, _address: int, _bytes: int) -> None:
    """Accounts have no bytes that a stream could work in."""


def _requested_peak(requests: RequestSequence) -> int:
    size = requests.size[requests.request]
    sign = (requests.action == RequestAction.ALLOCATE).astype(np.int64)
    sign -= requests.action == RequestAction.FREE_COMPLETED
    return int(np.cumsum(sign * size).max(initial=0))
