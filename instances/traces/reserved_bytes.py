"""What an allocator had reserved from the device, from the segments of its trace."""

from __future__ import annotations

import numpy as np

from instances.traces.allocation_trace import SEGMENT_KINDS, AllocationTrace
from planners.errors import InstanceError
from planners.model.reference import Reference
from planners.model.rules import MAX_TOTAL_BYTES

# Traces with segments are recordings of PyTorch's allocator.
ALLOCATOR = "PyTorch"
GROWS = np.array([1 if kind in ("segment_alloc", "segment_map") else -1 for kind in SEGMENT_KINDS])


def peak_reserved(trace: AllocationTrace, begin: int, end: int) -> Reference | None:
    """Return the most that was reserved at once during some events of a trace, half-open.

    What was reserved before them and not given back counts. None where the trace knows nothing of
    segments. Of those from before the trace it knows only what it sees given back; where blocks or
    segments were there before, the number is a lower bound and says so.
    """
    if not len(trace.segments):
        return None
    by_event = np.argsort(trace.segments[:, 0], kind="stable")
    event, kind, _, size, _ = trace.segments[by_event].T
    if (size < 0).any() or size.sum(dtype=np.float64) > MAX_TOTAL_BYTES:
        raise InstanceError(
            f"field segments: sizes of at least 0 whose sum stays below 2**61 bytes are needed, "
            f"found {size.min()} to {size.max()} in {len(size)} rows"
        )
    reserved = np.concatenate([[0], np.cumsum(GROWS[kind] * size)])
    from_before = -int(reserved.min())
    first, last = np.searchsorted(event, [begin, end])
    peak = int(reserved[first : last + 1].max()) + from_before
    return Reference(ALLOCATOR, peak, exact=from_before == 0 and not bool(trace.before.any()))
