"""Recordings with captured graphs and a MemPool: PyTorch's rules give every recorded address."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from instances.formats.recorded_trace import read_recorded_trace_file
from instances.traces.trace_requests import requests_of_trace
from tests.gpu_runtime.own_processes import outputs_of
from tests.gpu_runtime.replaying.test_recorded_check import checked, checked_allocator

RECORDED = Path(__file__).with_name("recorded_captures")
ALLOCATORS = ["pytorch-caching", "pytorch-expandable"]


def hold(file: Path, allocator: str) -> None:
    """Replay a recording, and hold each address and each segment against it."""
    trace = read_recorded_trace_file(file)
    requests = requests_of_trace(trace)
    assert checked_allocator(requests) == allocator
    found = checked(requests, allocator)
    assert found.difference == ""
    assert found.agreeing_requests == found.requests > 200
    assert found.agreeing_segments == found.segments
    # One shared by three graphs, three of one graph each, and that of the program.
    assert len(np.unique(trace.pool[trace.pool > 0])) == 5


# Recorded on an H200 with PyTorch 2.11. The pool of the program had ended before the snapshot, so
# its number was set by the addresses of its segments.
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_a_recorded_run_with_private_pools_is_repeated(allocator: str) -> None:
    hold(RECORDED / f"{allocator}.npz", allocator)


@pytest.mark.gpu
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_a_run_with_private_pools_is_repeated(allocator: str, tmp_path: Path) -> None:
    settings = f"expandable_segments:{allocator == 'pytorch-expandable'}"
    file = tmp_path / "run.npz"
    command = ["tests.gpu_runtime.replaying.captured_run", str(file)]
    outputs_of([command], {"PYTORCH_CUDA_ALLOC_CONF": settings})
    hold(file, allocator)
