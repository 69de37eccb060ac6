"""How often an allocator asked its device, and how long that took, by kind."""

from __future__ import annotations

from gpu_runtime._core import DeviceCalls

KINDS = (
    "allocate_plain", "release_plain", "reserve_range", "release_range", "create_pages",
    "release_pages", "map", "set_access", "unmap", "synchronize", "await_event", "record_event",
    "make_wait",
)  # fmt: skip
# Timed and not counted: questions, such as whether an event is done, and events that go.
OTHER = "other"


def call_counts(calls: DeviceCalls) -> dict[str, int]:
    """Return the kinds that there were, each with its number of calls."""
    return {kind: getattr(calls, kind) for kind in KINDS if getattr(calls, kind)}


def call_seconds(nanoseconds: DeviceCalls) -> dict[str, float]:
    """Return the kinds that took time, each with how much."""
    taken = {kind: getattr(nanoseconds, kind) for kind in (*KINDS, OTHER)}
    return {kind: time / 1e9 for kind, time in taken.items() if time}
