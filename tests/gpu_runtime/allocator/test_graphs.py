"""Reports on graphs that share memory."""

from __future__ import annotations

import json

import pytest

from gpu_runtime import PlannedMemory
from gpu_runtime._core import PlannedAllocator
from tests.gpu_runtime.core.captured_graphs import Captures

pytestmark = pytest.mark.core

PAGE = 4096


def test_the_report_has_what_graphs_share_and_what_pytorch_would_hold() -> None:
    made = Captures(PAGE)
    made.allocator.set_exclusive_graphs(False)
    memory = PlannedMemory()
    memory.attach(made.allocator)
    assert not made.allocator.begin_pool(1)
    assert memory.report().graphs is None
    with memory.graphs(exclusive=True):
        with memory.graphs(exclusive=False):
            assert not made.allocator.begin_pool(5)
        for pool in (1, 2):
            made.begin(pool)
            made.request(PAGE)
            made.free(made.request(9 * PAGE))
            made.end()
        made.allocator.begin_pool(3)
        made.allocator.allocate_in_pool(3, PAGE, 0)
    assert not made.allocator.begin_pool(4)
    report = memory.report()
    assert report.graphs is not None
    assert (report.graphs.shared_bytes, report.graphs.own_bytes) == (9 * PAGE, 2 * PAGE)
    assert "36,864 bytes shared by 2 pools, 8,192 outlive" in str(report)
    assert report.graphs.passed_on == "1 pool filled before a capture"
    assert json.loads(json.dumps(report.to_json()))["graphs"]["pytorch_bytes"] == 2 * (2 << 20)
    memory.pause()
    pause = memory.report().pause
    assert pause is not None
    assert pause.passed_on_bytes == 11 * PAGE


def test_plain_memory_is_passed_on() -> None:
    memory = PlannedMemory(arena="cudaMalloc")
    memory.attach(PlannedAllocator(Captures(PAGE).memory, is_plain=True))
    with memory.graphs(exclusive=True), memory.between_replays():
        pass
    graphs = memory.report().graphs
    assert graphs is not None
    assert "plain memory" in graphs.passed_on
