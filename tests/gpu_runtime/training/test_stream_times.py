"""How long streams work and wait: from traces made by hand, and from the profiler itself."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_runtime.training.stream_times import (
    StepTrace,
    StreamTimes,
    profiled_step,
    stream_times,
)

COMPUTE, TALK, COPY = 7, 20, 24


def event(stream: int, begin: float, end: float, name: str = "gemm", cat: str = "kernel") -> Any:
    return {"cat": cat, "name": name, "ts": begin, "dur": end - begin, "args": {"stream": stream}}


def trace(*events: Any) -> StepTrace:
    # As the profiler writes them: in no order, among what is no work of a stream.
    host = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 0, "dur": 9**9}
    return {"traceEvents": [{"ph": "M", "name": "process_name"}, host, *reversed(events)]}


def test_streams_are_told_by_what_they_do() -> None:
    # us       0    1000   2000   3000   4000   5000
    # compute  [----]      [------]      [------]
    # talk          [--------------------]
    # copy     [-]         [-]
    step = trace(
        event(COMPUTE, 0, 1000), event(COMPUTE, 2000, 3000), event(COMPUTE, 4000, 5000),
        event(TALK, 1000, 4500, "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage)"),
        event(COPY, 0, 500, "Memcpy DtoD (Device -> Device)", "gpu_memcpy"),
        event(COPY, 2000, 2500, "Memset (Device)", "gpu_memset"),
    )  # fmt: skip
    assert stream_times([step]) == (
        StreamTimes("communication", 3.5, 0.0),
        StreamTimes("compute", 3.0, 2.0),
        StreamTimes("other", 1.0, 1.5),
    )


@pytest.mark.parametrize(
    ("steps", "busy", "idle"),
    [
        # Kernels that overlap count once.
        ([[(0, 1000), (900, 1500), (1000, 1200), (1750, 2000)]], 1.75, 0.25),
        # Time between steps is not idle, and steps are averaged.
        ([[(0, 1000), (1500, 2000)], [(90_000, 92_000), (92_100, 92_600)]], 2.0, 0.3),
    ],
)
def test_times_of_one_stream(
    steps: list[list[tuple[float, float]]], busy: float, idle: float
) -> None:
    traces = [trace(*(event(COMPUTE, *span) for span in step)) for step in steps]
    assert stream_times(traces) == (StreamTimes("compute", busy, idle),)
    assert stream_times([]) == stream_times([trace()]) == ()


@pytest.mark.torch
def test_traces_of_the_profiler_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gpu_runtime.training import stream_times as module

    monkeypatch.setattr(module, "PROFILED", "CPU")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    traces: list[StepTrace] = []
    for _ in range(2):
        with module.profiled_step(traces):
            torch.ones(8, 8) @ torch.ones(8, 8)
    for its in traces:
        assert "aten::mm" in [found.get("name") for found in its["traceEvents"]]
    assert stream_times(traces) == ()


@pytest.mark.gpu
def test_the_streams_of_a_device_are_found() -> None:
    import torch

    traces: list[StepTrace] = []
    side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    matrix = torch.ones(4096, 4096, device="cuda")
    for _ in range(2):
        with profiled_step(traces):
            for _ in range(8):
                matrix @ matrix
            with torch.cuda.stream(side):
                torch.zeros(1024, device="cuda")
    compute, other = stream_times(traces[1:])
    assert (compute.role, other.role) == ("compute", "other")
    assert compute.busy_milliseconds > 1
    assert compute.idle_milliseconds >= 0
