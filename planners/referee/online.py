"""The rules that the answer of an online allocator obeys, whoever wrote the allocator.

A block is live from the row of its request to the row of its first free: an allocator that orders
its streams may use a block again before the free completes.
"""

from __future__ import annotations

import numpy as np

from planners import _core
from planners.model.columns import IntColumn
from planners.model.online_result import OnlineResult
from planners.model.request_sequence import RequestSequence

# CUDA promises this alignment of all memory that it gives (CUDA C++ Programming Guide, device
# memory accesses), and programs count on it.
ADDRESS_ALIGNMENT = 256


def find_online_fault(
    requests: RequestSequence, live: IntColumn, capacity: int | None, result: OnlineResult
) -> str | None:
    """Return the rule that an answer breaks, with the value found and where, or None.

    `live` has the live bytes after each row that was served. `result` has plain values and columns
    of the right shape; a column without entries is not known.
    """
    fault = _fault_of_peaks(live, capacity, result)
    return fault or _fault_of_addresses(requests, len(live), result)


def _fault_of_peaks(live: IntColumn, capacity: int | None, result: OnlineResult) -> str | None:
    allocated, peak = result.allocated_peak, int(live.max(initial=0))
    row = f" after row {int(live.argmax())}" if len(live) else ""
    if allocated < peak:
        return (
            f"allocated_peak: at least the {peak} bytes that are live{row} are needed, "
            f"found {allocated}"
        )
    if result.reserved_peak < allocated:
        return (
            f"reserved_peak: at least the {allocated} bytes of allocated_peak are needed, "
            f"found {result.reserved_peak}"
        )
    if capacity is not None and result.reserved_peak > capacity:
        return (
            f"reserved_peak: at most the {capacity} bytes of the device are there, "
            f"found {result.reserved_peak}"
        )
    for name, least, what in (
        ("allocated", live, "that are live"),
        ("reserved", live, "that are live"),
        ("reserved", result.allocated[: len(live)], "that are allocated"),
    ):
        column, highest = getattr(result, name)[: len(live)], getattr(result, f"{name}_peak")
        if not len(column) or not len(least):
            continue
        for row in np.flatnonzero(column < least)[:1].tolist():
            return (
                f"{name}, row {row}: at least the {least[row]} bytes {what} are needed, "
                f"found {column[row]}"
            )
        if column.max() > highest:
            return (
                f"{name}_peak: at least the {column.max()} bytes of {name}, row {column.argmax()}, "
                f"are needed, found {highest}"
            )
    return None


def _fault_of_addresses(requests: RequestSequence, ended: int, result: OnlineResult) -> str | None:
    begin = requests.allocation_rows
    served = np.flatnonzero(begin < ended)
    if not len(result.addresses) or not len(served):
        return None
    address, size = result.addresses[served], requests.size[served]
    given = result.segments[np.argsort(result.segments[:, 1], kind="stable")]
    for wrong, rule in (
        (address <= 0, "an address above 0 is needed"),
        (address > 1 << 62, "an address below 2**62 is needed"),
        (address % ADDRESS_ALIGNMENT != 0, f"a multiple of {ADDRESS_ALIGNMENT} is needed"),
    ):
        for at in np.flatnonzero(wrong)[:1].tolist():
            return f"addresses, request {served[at]}: {rule}, found {address[at]}"
    if len(given):
        # Segments may lie side by side, and a block in several of them.
        starts, ends = given[:, 1], np.maximum.accumulate(given[:, 1] + given[:, 2])
        runs = np.append(True, starts[1:] > ends[:-1])
        first, last = starts[runs], ends[np.append(runs[1:], True)]
        at = np.searchsorted(first, address, side="right") - 1
        outside = (at < 0) | (address + size > last[at])
        for at in np.flatnonzero(outside)[:1].tolist():
            return (
                f"addresses, request {served[at]}: bytes of the segments that the device gave are "
                f"needed, found [{address[at]}, {address[at] + size[at]}), which none has"
            )
    ends = np.minimum(requests.end_rows[served], ended)
    rows = np.column_stack([np.arange(len(served)), begin[served], ends])
    pair = _core.find_overlap_in_time(address, size, rows)
    if pair is None:
        return None
    spans = [f"request {served[at]} at [{address[at]}, {address[at] + size[at]})" for at in pair]
    row = max(int(begin[served[at]]) for at in pair)
    return (
        f"addresses: live blocks share no byte, found {' and '.join(spans)}, both live at row {row}"
    )
