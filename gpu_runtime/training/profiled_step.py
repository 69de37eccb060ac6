"""The kernels of one step, noted by PyTorch's profiler."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from gpu_runtime.training.stream_times import StepTrace

ACTIVITIES = (ProfilerActivity.CUDA,)


@contextmanager
def profiled_step(traces: list[StepTrace]) -> Iterator[None]:
    """Add the trace of what the device does within this context, which begins and ends idle."""
    torch.cuda.synchronize()
    with profile(activities=ACTIVITIES) as profiler:
        yield
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        traces.append(json.loads(path.read_text()))
