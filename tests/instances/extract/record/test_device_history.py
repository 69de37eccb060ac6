"""PyTorch's history of its allocator becomes a trace."""

from __future__ import annotations

from typing import Any

import pytest

from instances.extract.record.device_history import trace_of_history
from planners.errors import InstanceError


def entry(action: str, addr: int, size: int, module: str = "", stream: int = 0) -> dict[str, Any]:
    found = {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": 7}
    return {**found, "user_metadata": module} if module else found


pytestmark = pytest.mark.torch

HISTORY = [
    entry("segment_alloc", 4096, 2 << 20),
    entry("alloc", 4096, 400),
    # The forward pass begins.
    entry("alloc", 8192, 101),
    entry("free_requested", 8192, 101),
    entry("free_completed", 8192, 101),
    entry("alloc", 8192, 200, "Net.first"),
    entry("snapshot", 0, 0),
    # The backward pass begins.
    entry("alloc", 16384, 103, "Net.first"),
    entry("free_requested", 16384, 103),
    entry("free_completed", 16384, 103),
    entry("free_requested", 8192, 200, "Net.second"),
    entry("free_completed", 8192, 200),
    entry("free_completed", 12288, 64),
]


def test_requests_phases_and_modules() -> None:
    trace = trace_of_history(HISTORY, "run", {"gpu": "none"})
    assert trace.size.tolist() == [64, 400, 101, 200, 103]
    assert trace.before.tolist() == [True, False, False, False, False]
    assert trace.is_marker.tolist() == [False, False, True, False, True]
    # Events of the allocator alone are counted: the snapshot is none.
    assert trace.alloc.tolist() == [0, 1, 2, 5, 6]
    assert trace.free_requested.tolist() == [11, 12, 3, 9, 7]
    assert trace.freed.tolist() == [11, 12, 4, 10, 8]
    assert trace.mark_event.tolist() == [2, 6]
    assert trace.mark_phase.tolist() == [0, 1]
    assert trace.module_names == ("Net.first", "Net.second")
    assert trace.alloc_module.tolist() == [-1, -1, -1, 0, 0]
    assert trace.free_module.tolist() == [-1, -1, -1, 1, -1]
    assert trace.segments.tolist() == [[0, 0, 4096, 2 << 20, 0]]
    assert trace.origin == {"gpu": "none"}


def test_an_address_in_use_is_not_allocated_again() -> None:
    with pytest.raises(InstanceError, match="an address is allocated once"):
        trace_of_history([entry("alloc", 1, 8), entry("alloc", 1, 8)], "run", {})


def test_a_history_without_events_is_an_empty_trace() -> None:
    assert trace_of_history([], "run", {}).request_count == 0
