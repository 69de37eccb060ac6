"""A policy of the core over the requests of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import (
    DeviceMemory,
    LedgerMemory,
    OnlineAllocator,
    RecordedAction,
    RequestLog,
    replay,
)
from gpu_runtime.replaying.recorded_memory import plain_addresses, range_addresses
from gpu_runtime.replaying.replay_device import open_replay_device
from planners.errors import DeviceError, InstanceError
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence

# The memory whose place in the recorded run is given to a policy.
Dictated = Literal["plain", "ranges", ""]

CORE_ACTION = np.zeros(len(RequestAction), dtype=np.uint8)
CORE_ACTION[RequestAction.ALLOCATE] = RecordedAction.ALLOCATE
CORE_ACTION[RequestAction.FREE_REQUESTED] = RecordedAction.FREE_REQUESTED
CORE_ACTION[RequestAction.FREE_COMPLETED] = RecordedAction.FREE_COMPLETED
# Of whichever kind: it has everything idle given back.
CORE_ACTION[RequestAction.GIVE_BACK] = RecordedAction.SEGMENT_FREED


def replay_policy(
    requests: RequestSequence,
    terms: OnlineTerms,
    make: Callable[[DeviceMemory], OnlineAllocator],
    dictated: Dictated = "",
) -> OnlineResult:
    """Make the requests to a policy.

    Parameters
    ----------
    make
        Returns the policy over a device.
    dictated
        Which memory lies where it lay in the recorded run, on a device of accounts: of blocks of
        one size the one with the lowest address is handed out, and which that is hangs on it.

    Raises
    ------
    DeviceError
        There is no such device, or it refused a call.
    GaplessError
        Two live blocks shared bytes, where the terms have that looked at.
    InstanceError
        Recorded memory lies where no device has any.
    """
    device = open_replay_device(requests, terms)
    if isinstance(device.memory, LedgerMemory):
        _dictate(device.memory, requests, dictated)
    allocator = make(device.served)
    try:
        outcome = replay(
            core_log(requests),
            allocator,
            device.memory,
            device.logged,
            terms.has_series,
            device.stamps,
            requests.last_iteration_row,
        )
    except OSError as error:
        raise DeviceError(f"device {terms.device}: {error}") from None
    figures, segments = allocator.figures(), device.logged.rows()
    calls, seconds = device.calls, device.seconds
    ended = outcome.out_of_memory_row
    addresses = outcome.take_addresses()
    if not isinstance(device.memory, LedgerMemory):
        _return_memory(requests, allocator, addresses, ended)
    device.require_apart(requests)
    return OnlineResult(
        requested_peak=figures.requested_peak,
        allocated_peak=figures.allocated_peak,
        reserved_peak=figures.reserved_peak,
        device_calls=calls,
        seconds=outcome.seconds,
        device_seconds=seconds,
        last_iteration_seconds=outcome.late_seconds if ended < 0 else 0.0,
        out_of_memory_row=None if ended < 0 else ended,
        reserved=outcome.take_reserved(),
        allocated=outcome.take_allocated(),
        addresses=addresses.astype(np.int64),
        segments=segments[:, [2, 0, 1]],
    )


def core_log(requests: RequestSequence) -> RequestLog:
    """Return the requests as the core takes them, which tells blocks apart by their addresses."""
    return RequestLog(
        CORE_ACTION[requests.action],
        (requests.request + 1).astype(np.uint64),
        requests.size[requests.request],
        requests.stream[requests.request],
    )


def _dictate(ledger: LedgerMemory, requests: RequestSequence, dictated: Dictated) -> None:
    try:
        if dictated == "plain":
            ledger.dictate_plain(plain_addresses(requests).tolist())
        elif dictated == "ranges":
            ledger.dictate_ranges(range_addresses(requests).tolist())
    except ValueError as error:
        raise InstanceError(f"{requests.name}, segments: {error}") from None


def _return_memory(
    requests: RequestSequence,
    allocator: OnlineAllocator,
    addresses: NDArray[np.uint64],
    ended: int,
) -> None:
    """Give all memory back, which the next allocator needs."""
    live = requests.live_after(requests.row_count if ended < 0 else ended)
    for address in addresses[live].tolist():
        allocator.free(address)
    allocator.give_back()
