"""The requests of a recorded run as a sequence for another allocator."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from instances.traces.allocation_trace import SEGMENT_KINDS, AllocationTrace
from planners.model.columns import BoolColumn, IntColumn
from planners.model.request_sequence import NOWHERE, RequestAction, RequestSequence

GROWING_KINDS = [SEGMENT_KINDS.index(name) for name in ("segment_alloc", "segment_map")]
LEAVING_KINDS = [SEGMENT_KINDS.index(name) for name in ("segment_free", "segment_unmap")]
UNMAPPED_KIND = SEGMENT_KINDS.index("segment_unmap")
MAPPED_KIND = SEGMENT_KINDS.index("segment_map")
# The event of requests from before the trace.
BEFORE = -1


def requests_of_trace(trace: AllocationTrace) -> RequestSequence:
    """Return all requests of a trace, markers of phases among them, and their ends.

    Blocks from before the trace are requested first. A free that completes before anything else
    happens is one row; any other free is two. Consecutive segments of a pool that are given back
    are one row.
    """
    asked = np.flatnonzero(trace.size > 0)
    alloc = np.where(trace.before[asked], BEFORE, trace.alloc[asked])
    requested, freed = trace.free_requested[asked], trace.freed[asked]
    later = np.flatnonzero(requested < freed)
    completed = np.flatnonzero(freed < trace.event_count)
    leaving = trace.segments[np.isin(trace.segments[:, 1], LEAVING_KINDS)]
    # At one event, ends come before beginnings.
    parts = (
        (RequestAction.GIVE_BACK, np.zeros(len(leaving), dtype=np.int64), leaving[:, 0]),
        (RequestAction.FREE_REQUESTED, later, requested[later]),
        (RequestAction.FREE_COMPLETED, completed, freed[completed]),
        (RequestAction.ALLOCATE, np.arange(len(asked)), alloc),
    )
    event = np.concatenate([events for _, _, events in parts])
    action = np.concatenate([np.full(len(requests), kind) for kind, requests, _ in parts])
    request = np.concatenate([requests for _, requests, _ in parts])
    pool = np.concatenate([_pools_of_leaving(trace), trace.pool[asked[request[len(leaving) :]]]])
    order = np.argsort(event, kind="stable")
    order = order[~_goes_with_next(action[order], request[order], pool[order])]
    event, action, request, pool = event[order], action[order], request[order], pool[order]
    return RequestSequence(
        trace.name,
        action=action,
        request=request,
        event=event,
        size=trace.size[asked],
        stream=trace.stream[asked],
        is_recorded=True,
        address=trace.address[asked],
        segments=_segments(trace, np.flatnonzero(action == RequestAction.ALLOCATE), event),
        iteration_rows=np.searchsorted(event, trace.iteration_begins),
        phase=_phases(trace, event),
        module=_modules(trace, asked[request], action),
        module_names=trace.module_names,
        pool=pool if pool.any() else np.empty(0, dtype=np.int64),
    )


def _pools_of_leaving(trace: AllocationTrace) -> IntColumn:
    """Return the pool of each segment that leaves: that of the request for which its memory came.

    Memory that came before the recording counts as common. A row of 0 bytes, which a traced program
    leaves where it gives idle memory back, has the number of its pool in place of an address.
    """
    kinds = trace.segments[:, 1]
    pools = np.zeros(len(kinds), dtype=np.int64)
    if trace.pool.any():
        alloc = np.where(trace.before, BEFORE, trace.alloc)
        asked = np.append(trace.pool, 0)[np.searchsorted(alloc, trace.segments[:, 0])]
        # The first addresses of segments, sorted, and the pool of each segment.
        begins: list[int] = []
        pool_at: dict[int, int] = {}
        for row in np.argsort(trace.segments[:, 0], kind="stable").tolist():
            _, kind, address, size, _ = trace.segments[row].tolist()
            first, behind = bisect_left(begins, address), bisect_left(begins, address + size)
            if not size:
                pools[row] = address
            elif kind in GROWING_KINDS:
                begins[first:behind] = [address]
                pool_at[address] = int(asked[row])
            # Unmapped pages may be the rear ones of those that were mapped together.
            elif behind > (0 if kind == UNMAPPED_KIND else first):
                pools[row] = pool_at[begins[behind - 1]]
    return pools[np.isin(kinds, LEAVING_KINDS)]


def _phases(trace: AllocationTrace, event: IntColumn) -> IntColumn:
    """Return the number of each row's phase within its iteration; none without marks."""
    if not trace.iteration_count:
        return np.empty(0, dtype=np.int64)
    mark = np.searchsorted(trace.mark_event, event, side="right") - 1
    first = np.searchsorted(trace.mark_iteration, trace.mark_iteration)
    return np.where(mark < 0, NOWHERE, mark - first[mark])


def _modules(trace: AllocationTrace, request: IntColumn, action: IntColumn) -> IntColumn:
    """Return the module in which each row happens; empty if the trace has no modules."""
    if not trace.module_names:
        return np.empty(0, dtype=np.int64)
    begins = action == RequestAction.ALLOCATE
    module = np.where(begins, trace.alloc_module[request], trace.free_module[request])
    return np.where(action == RequestAction.GIVE_BACK, NOWHERE, module)


def _goes_with_next(action: IntColumn, request: IntColumn, pool: IntColumn) -> BoolColumn:
    """Return True for rows that the next row covers, such as a free that completes in that row."""
    first, second = action[:-1], action[1:]
    is_completed = (first == RequestAction.FREE_REQUESTED) & (
        second == RequestAction.FREE_COMPLETED
    )
    is_again = (first == RequestAction.GIVE_BACK) & (second == RequestAction.GIVE_BACK)
    is_again &= pool[:-1] == pool[1:]
    goes = np.zeros(len(action), dtype=np.bool_)
    goes[:-1] = is_again | is_completed & (request[:-1] == request[1:])
    return goes


def _segments(trace: AllocationTrace, allocations: IntColumn, event: IntColumn) -> IntColumn:
    """Return the segments that the device gave, each with the row of the next allocation."""
    grown = trace.segments[np.isin(trace.segments[:, 1], GROWING_KINDS)]
    grown = grown[np.argsort(grown[:, 0], kind="stable")]
    after = np.searchsorted(event[allocations], grown[:, 0])
    # The last segment may belong to a request after the end of the recording.
    rows = np.append(allocations, len(event))[after]
    return np.column_stack([rows, grown[:, 1] == MAPPED_KIND, grown[:, 2:]])
