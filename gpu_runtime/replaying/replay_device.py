"""The device below an allocator in a replay, and the streams that work in its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpu_runtime._core import (
    BlockStamps,
    CountingMemory,
    CudaMemory,
    DeviceMemory,
    LedgerMemory,
    LedgerStreams,
    ReplayedStreams,
    SegmentLog,
    SimulatedMemory,
)
from gpu_runtime.allocator.call_counts import call_counts, call_seconds
from gpu_runtime.allocator.overwrite_kernels import load_checks
from planners.errors import DeviceError, GaplessError
from planners.model.online_result import OnlineDevice, OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence
from planners.text.byte_units import counted

PAGE_BYTES = 1 << 21
# Bytes of a device without a given capacity: more memory than a real recording asks for. The upper
# limit bounds the pages that a forged recording can make an allocator create, 2 million of 2 MiB.
LEAST_CAPACITY = 1 << 37
MOST_CAPACITY = 1 << 42
ROOM = 8
# Most streams of a GPU that a replay uses; PyTorch's pool has as many.
MOST_STREAMS = 32


@dataclass(frozen=True)
class ReplayDevice:
    """A device, and the layers between it and an allocator: call counts and a segment log."""

    memory: DeviceMemory
    counted: CountingMemory
    logged: SegmentLog
    # The layer that stamps every block; None if blocks are not stamped.
    stamps: BlockStamps | None
    kind: OnlineDevice

    @property
    def served(self) -> DeviceMemory:
        """The memory from which the allocator serves."""
        return self.logged if self.stamps is None else self.stamps

    @property
    def calls(self) -> Mapping[str, int]:
        """Number of device calls by kind."""
        return call_counts(self.counted.calls)

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds in the calls of each kind; empty on a device without times."""
        return call_seconds(self.counted.nanoseconds)

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    def require_apart(self, requests: RequestSequence) -> None:
        """Raise if a stamped block was overwritten while it lived."""
        found = [] if self.stamps is None else self.stamps.found()
        if found:
            first = min(found, key=lambda each: (each.number, each.address))
            words = sum(each.words for each in found if each.number == first.number)
            raise GaplessError(
                f"no two live blocks share a byte, found {counted(words, 'word')} of another "
                f"block from {first.address:#x} on, in that of request {first.number:,} of "
                f"{counted(int(requests.size[first.number]), 'byte')}; so in "
                f"{counted(len({each.number for each in found}), 'block')}"
            )


def open_replay_device(requests: RequestSequence, terms: OnlineTerms) -> ReplayDevice:
    """Return the device that the terms name; ``DeviceError`` if there is none."""
    if terms.is_verified and terms.device is OnlineDevice.LEDGER:
        raise DeviceError(
            "--verify: a device with memory is needed, simulated or cuda; found ledger"
        )
    usual = min(MOST_CAPACITY, max(LEAST_CAPACITY, ROOM * _requested_peak(requests)))
    capacity = terms.capacity or usual
    # The device itself, and above it the memory in which the streams of a replay work.
    memory: DeviceMemory
    device: DeviceMemory
    if terms.device is OnlineDevice.LEDGER:
        memory = device = LedgerMemory(PAGE_BYTES, capacity, LedgerStreams.WHEN_TOLD)
    elif terms.device is OnlineDevice.SIMULATED:
        memory = device = simulated = SimulatedMemory(PAGE_BYTES, capacity)
        simulated.work_at_events()
    else:
        if terms.capacity is not None:
            raise DeviceError("--capacity: a GPU has the memory that it has; leave it out")
        try:
            device = gpu = open_gpu()
            memory = _replayed_streams(gpu, requests)
            if terms.is_verified:
                load_checks(gpu)
        except OSError as error:
            raise DeviceError(f"device cuda: {error}") from None
    asked = CountingMemory(memory, is_timed=terms.device is not OnlineDevice.LEDGER)
    logged = SegmentLog(asked)
    stamps = BlockStamps(logged, device) if terms.is_verified else None
    return ReplayDevice(memory, asked, logged, stamps, terms.device)


def open_gpu() -> CudaMemory:
    """Return the first GPU; ``DeviceError`` if there is none."""
    try:
        return CudaMemory(0)
    except OSError as error:
        raise DeviceError(f"device cuda: {error}") from None


def _replayed_streams(device: CudaMemory, requests: RequestSequence) -> ReplayedStreams:
    """Map the recorded streams to streams of the device; the default stream maps to itself."""
    replayed = ReplayedStreams(device, other=device.make_stream())
    replayed.stand_for(0, 0)
    recorded = sorted(set(requests.stream.tolist()) - {0})
    handles = [device.make_stream() for _ in recorded[:MOST_STREAMS]]
    for index, stream in enumerate(recorded):
        replayed.stand_for(stream, handles[index % MOST_STREAMS])
    return replayed


def _requested_peak(requests: RequestSequence) -> int:
    size = requests.of_rows(requests.size)
    sign = (requests.action == RequestAction.ALLOCATE).astype(np.int64)
    sign -= requests.action == RequestAction.FREE_COMPLETED
    return int(np.cumsum(sign * size).max(initial=0))
