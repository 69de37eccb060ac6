"""Replays the requests of a run to an online allocator of the core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from gpu_runtime._core import (
    DeviceMemory,
    LedgerMemory,
    OnlineAllocator,
    OnlineReplay,
    PlannedAllocator,
    PlannedReplay,
    RecordedAction,
    RequestLog,
)
from gpu_runtime.replaying.replay_device import ReplayDevice, open_replay_device
from planners.errors import DeviceError, InstanceError
from planners.model.columns import IntColumn
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence

CORE_ACTION = np.zeros(len(RequestAction), dtype=np.uint8)
CORE_ACTION[RequestAction.ALLOCATE] = RecordedAction.ALLOCATE
CORE_ACTION[RequestAction.FREE_REQUESTED] = RecordedAction.FREE_REQUESTED
CORE_ACTION[RequestAction.FREE_COMPLETED] = RecordedAction.FREE_COMPLETED
# If the recorded run gave back a segment of any kind, the replayed allocator gives back all of its
# idle memory.
CORE_ACTION[RequestAction.GIVE_BACK] = RecordedAction.SEGMENT_FREED


def replay_online(
    requests: RequestSequence,
    terms: OnlineTerms,
    make: Callable[[DeviceMemory], OnlineAllocator],
    dictated: str = "",
    visits: IntColumn | None = None,
) -> OnlineResult:
    """Replay the requests to an online allocator, and return its result.

    `dictated` is ``"plain"``, ``"ranges"`` or empty: the kind of memory that a ledger puts at the
    recorded addresses. Addresses matter, since the allocator chooses by them between blocks of one
    size. `visits` has the visit of each row, for an allocator that knows them.
    """
    device = open_replay_device(requests, terms)
    if isinstance(device.memory, LedgerMemory):
        _dictate(device.memory, requests, dictated)
    allocator = make(device.served)
    log = core_log(requests, visits)
    layers = (device.memory, device.logged, terms.has_series, device.stamps)
    begins = np.unique(requests.iteration_rows).tolist()
    replay = OnlineReplay(log, allocator, *layers)
    result = serve_rows(requests, device, allocator, replay, begins, allocator.begin_iteration)
    result = replace(result, statistics=dict(allocator.own_figures()))
    return_memory(requests, device, allocator, result)
    return result


def serve_rows(
    requests: RequestSequence,
    device: ReplayDevice,
    allocator: OnlineAllocator | PlannedAllocator,
    replay: OnlineReplay | PlannedReplay,
    begins: Sequence[int],
    begin_iteration: Callable[[], None],
    end: Callable[[], None] = lambda: None,
) -> OnlineResult:
    """Serve all rows, or the rows until the device has no memory.

    `begin_iteration` is called at the rows `begins`, and `end` after the last row. Of their time
    only the device calls at the begin of iterations count as the allocator's.
    """
    begun: list[Mapping[str, int]] = []
    early = beginning = 0.0
    try:
        for row in begins:
            replay.run_to(row)
            if replay.out_of_memory_row >= 0:
                break
            begun.append(device.calls)
            taken = device.total_seconds
            begin_iteration()
            beginning += device.total_seconds - taken
            early = replay.seconds
        replay.run_to(requests.row_count)
        end()
        outcome = replay.end()
    except OSError as error:
        raise DeviceError(f"device {device.kind}: {error}") from None
    figures, ended = allocator.figures(), outcome.out_of_memory_row
    return OnlineResult(
        requested_peak=figures.requested_peak,
        allocated_peak=figures.allocated_peak,
        reserved_peak=figures.reserved_peak,
        device_calls=device.calls,
        seconds=outcome.seconds + beginning,
        device_seconds=device.seconds,
        last_iteration_seconds=outcome.seconds - early if ended < 0 else 0.0,
        iteration_calls=[
            {kind: more for kind, count in after.items() if (more := count - before.get(kind, 0))}
            for before, after in pairwise([*begun, device.calls])
        ],
        out_of_memory_row=None if ended < 0 else ended,
        reserved=outcome.take_reserved(),
        allocated=outcome.take_allocated(),
        addresses=outcome.take_addresses().astype(np.int64),
        segments=device.logged.rows()[:, [2, 0, 1]],
    )


def return_memory(
    requests: RequestSequence,
    device: ReplayDevice,
    allocator: OnlineAllocator | PlannedAllocator,
    result: OnlineResult,
) -> None:
    """Give all memory back for the next allocator, unless the device is a ledger.

    Raises if a stamped block was overwritten while it lived.
    """
    if not isinstance(device.memory, LedgerMemory):
        ended = result.out_of_memory_row
        live = requests.live_after(requests.row_count if ended is None else ended)
        for address in result.addresses[live].tolist():
            allocator.free(address)
        allocator.give_back()
    device.require_apart(requests)


def too_few_marks(requests: RequestSequence) -> str:
    """Return the reason if a recording has too few marked iterations for a plan; else ``""``."""
    marked = len(requests.iteration_rows)
    if marked > 1:
        return ""
    return (
        f"planned nothing: two marked iterations or more are needed, found {marked}; see Recording "
        f"a run of your own in docs/replaying.md"
    )


def core_log(requests: RequestSequence, visits: IntColumn | None = None) -> RequestLog:
    """Return the requests as a log of the core, with request number + 1 as address of a block."""
    return RequestLog(
        CORE_ACTION[requests.action],
        (requests.request + 1).astype(np.uint64),
        requests.of_rows(requests.size),
        requests.of_rows(requests.stream),
        visits,
        requests.pool.astype(np.uint64) if len(requests.pool) else None,
    )


# A ledger makes up addresses from here on, where no program has any.
FIRST_MADE_UP = 1 << 48


def _dictate(ledger: LedgerMemory, requests: RequestSequence, dictated: str) -> None:
    if requests.segments[:, 2].max(initial=0) >= FIRST_MADE_UP:
        return
    try:
        if dictated == "plain":
            ledger.dictate_plain(_plain_addresses(requests).tolist())
        elif dictated == "ranges":
            ledger.dictate_ranges(_range_addresses(requests).tolist())
    except ValueError as error:
        raise InstanceError(f"{requests.name}, segments: {error}") from None


# Page size of an expandable segment for small requests; larger requests have larger pages.
SMALL_PAGE_BYTES = 1 << 21


def _plain_addresses(requests: RequestSequence) -> IntColumn:
    addresses: IntColumn = requests.segments[requests.segments[:, 1] == 0, 2]
    return addresses


def _range_addresses(requests: RequestSequence) -> IntColumn:
    """Return the begin of each expandable segment, in the order of first use.

    Each stream has in each pool one segment for small requests and one for large ones. The first
    mapped page tells where a segment begins.
    """
    mapped = requests.segments[requests.segments[:, 1] == 1]
    # The row behind the last stands for no request.
    pool = np.append(requests.pool, np.zeros(requests.row_count + 1, dtype=np.int64))[mapped[:, 0]]
    place = np.column_stack([pool, mapped[:, 4], mapped[:, 3] <= SMALL_PAGE_BYTES])
    _, first = np.unique(place, axis=0, return_index=True)
    addresses: IntColumn = mapped[np.sort(first), 2]
    return addresses
