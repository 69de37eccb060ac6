"""The device calls of an allocator: their number and their seconds, by kind."""

from __future__ import annotations

from gpu_runtime._core import DeviceCalls

KINDS = (
    "allocate_plain", "release_plain", "reserve_range", "release_range", "create_pages",
    "release_pages", "map", "set_access", "unmap", "synchronize", "await_event", "record_event",
    "make_wait",
)  # fmt: skip
# Calls that are timed but not counted: queries, such as of an event, and deletions of events.
OTHER = "other"


def call_counts(calls: DeviceCalls) -> dict[str, int]:
    """Return the number of calls of each kind; kinds without calls are left out."""
    return {kind: getattr(calls, kind) for kind in KINDS if getattr(calls, kind)}


def call_seconds(nanoseconds: DeviceCalls) -> dict[str, float]:
    """Return the seconds of each kind; kinds that took no time are left out."""
    taken = {kind: getattr(nanoseconds, kind) for kind in (*KINDS, OTHER)}
    return {kind: time / 1e9 for kind, time in taken.items() if time}
