"""How often an allocator asked its device, by kind."""

from __future__ import annotations

from gpu_runtime._core import DeviceCalls

KINDS = (
    "allocate_plain", "release_plain", "reserve_range", "release_range", "create_pages",
    "release_pages", "map", "set_access", "unmap", "synchronize", "await_event", "record_event",
    "make_wait",
)  # fmt: skip


def call_counts(calls: DeviceCalls) -> dict[str, int]:
    """Return the kinds that there were, each with its number of calls."""
    return {kind: getattr(calls, kind) for kind in KINDS if getattr(calls, kind)}
