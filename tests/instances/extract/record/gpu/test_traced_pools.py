"""Captured graphs and pools of a program that is traced: whose requests come to which pool."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpu_runtime.fitting.graph_pools import captured_graphs
from instances.extract.record.own_extraction import open_own, trace_own
from instances.extract.record.requests.request_recorder import RequestRecorder
from instances.formats.recorded_trace import read_recorded_trace_file, write_recorded_trace
from instances.traces.allocation_trace import AllocationTrace
from instances.traces.trace_requests import requests_of_trace
from planners.model.online_result import OnlineTerms
from planners.online.online_run import run_online
from planners.registry import choose_online
from tests.instances.extract.own.user_scripts import written

pytestmark = pytest.mark.torch

MIB = 1 << 20
CACHING = "pytorch-caching"
HEAD = """
import torch
from torch import nn

MIB = 1 << 20


def mib(count):
    return torch.empty(count * MIB, dtype=torch.uint8, device="cuda")


def captured(sizes, pool=None):
    kept = []
    for size in sizes:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            assert torch.cuda.is_current_stream_capturing()
            mib(size)
            result = mib(4)
        graph.replay()
        kept.append((graph, result))
    return kept


def step():
    weight = nn.Parameter(torch.ones(8, device="cuda"))
    weight.sum().backward()
    torch.optim.SGD([weight], lr=0.1).step()

"""


def trace_of(folder: Path, *body: str) -> AllocationTrace:
    lines = "".join(f"    {line}\n" for line in (*body, "step()"))
    path = written(folder, f"{HEAD}def main():\n{lines}")
    return trace_own(open_own(f"{path}:main", []), 1)


def test_the_requests_of_a_capture_come_to_its_pool(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, "kept = captured([32, 8], torch.cuda.graph_pool_handle())")
    within = trace.capture > 0
    assert trace.capture[within].tolist() == [1, 1, 2, 2]
    assert np.unique(trace.pool[within]).size == 1
    assert not trace.pool[~within].any()
    assert (trace.size[within] // MIB).tolist() == [32, 4, 8, 4]
    # Seed and offset of the generator come at the first capture, to the common pool.
    first = int(np.flatnonzero(within)[0])
    assert trace.size[first - 2 : first].tolist() == [8, 8]


def test_each_arrangement_of_pools(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, "kept = captured([32, 24, 8])")
    first, second, third = captured_graphs(trace, choose_online(CACHING)[0])
    assert (first.live, first.left) == (32 * MIB, 4 * MIB)
    assert (first.adds, first.one_pool, first.own_pool) == (32 * MIB, 32 * MIB, 32 * MIB)
    # In one pool the memory of the first temporary serves again.
    assert (second.one_pool, third.one_pool) == (0, 0)
    assert (second.own_pool, third.own_pool) == (24 * MIB, 20 * MIB)
    assert [second.adds, third.adds] == [second.own_pool, third.own_pool]
    # With 2 MiB of the generator.
    assert third.reserved == (32 + 24 + 20 + 2) * MIB


def test_a_graph_that_is_gone_leaves_its_pool(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, "kept = captured([64])", "del kept", "torch.cuda.empty_cache()", "last = mib(64)"
    )
    (row,) = run_online(requests_of_trace(trace), CACHING, OnlineTerms()).rows
    assert row.result is not None
    assert row.result.reserved_peak < 128 * MIB


def test_an_emptied_cache_is_given_back(tmp_path: Path) -> None:
    """Without the call 30 MiB would stay reserved beside the 70."""
    trace = trace_of(tmp_path, "mib(30)", "torch.cuda.empty_cache()", "last = mib(70)")
    (row,) = run_online(requests_of_trace(trace), CACHING, OnlineTerms()).rows
    assert row.result is not None
    assert row.result.reserved_peak < 100 * MIB


def test_a_pool_of_the_program(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        "pool = torch.cuda.MemPool()",
        "with torch.cuda.use_mem_pool(pool):",
        "    inside = mib(3)",
        "outside = mib(5)",
    )
    pools = dict(zip((trace.size // MIB).tolist(), trace.pool.tolist(), strict=True))
    assert (pools[3] > 0, pools[5]) == (True, 0)
    assert not trace.capture.any()


def test_graphed_callables_have_two_graphs_each(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        "layers = tuple(nn.Linear(16, 16).cuda() for _ in range(3))",
        "x = torch.zeros(4, 16, device='cuda', requires_grad=True)",
        "made = torch.cuda.make_graphed_callables(layers, ((x,),) * 3)",
        "made[0](x).sum().backward()",
    )
    assert np.unique(trace.capture).tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_no_driver_is_asked_whether_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adam asks if PyTorch was built with CUDA, also where no GPU is."""
    import torch

    from instances.extract.record.gpu.traced_pools import traced_pools

    def without_driver() -> bool:
        raise RuntimeError("no CUDA-capable device is detected")

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", without_driver)
    with traced_pools(RequestRecorder()):
        assert not torch.cuda.is_current_stream_capturing()


def test_captures_are_in_the_file_of_a_trace(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, "kept = captured([32, 8])")
    write_recorded_trace(trace, tmp_path / "run.npz")
    again = read_recorded_trace_file(tmp_path / "run.npz")
    for field in ("capture", "pool", "size"):
        assert getattr(again, field).tolist() == getattr(trace, field).tolist()
    assert again.segments[:, 1:].tolist() == trace.segments[:, 1:].tolist()
