"""The working time of each stream of a device in a step, from traces of PyTorch's profiler."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

# The profiler's trace of one step, in Chrome's format.
StepTrace = dict[str, Any]

# Categories of work of a stream; between such events it waits for the host or another stream.
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
# The activity of PyTorch's profiler that is traced.
PROFILED = "CUDA"
# Part of the names of communication kernels, which also run while they wait for another device.
NCCL = "nccl"


class StreamTimes(msgspec.Struct, frozen=True):
    """Times of a stream, the mean over some steps."""

    # ``compute`` is the busiest stream that does no communication.
    role: str
    busy_milliseconds: float
    # Between its first piece of work and its last.
    idle_milliseconds: float


def stream_times(traces: Sequence[StepTrace]) -> tuple[StreamTimes, ...]:
    """Return the streams of some steps, the busiest first."""
    busy: defaultdict[int, float] = defaultdict(float)
    idle: defaultdict[int, float] = defaultdict(float)
    # Microseconds of communication within the busy time.
    talk: defaultdict[int, float] = defaultdict(float)
    for trace in traces:
        ends: dict[int, float] = {}
        for event in sorted(_work(trace), key=lambda event: event["ts"]):
            stream, begin = event["args"]["stream"], event["ts"]
            end = begin + event["dur"]
            last = ends.get(stream, begin)
            ends[stream] = max(end, last)
            # The next kernel of a stream may begin shortly before the last one has ended.
            added = ends[stream] - max(begin, last)
            busy[stream] += added
            idle[stream] += max(begin - last, 0.0)
            talk[stream] += added if NCCL in event["name"].lower() else 0.0
    order = sorted(busy, key=lambda stream: -busy[stream])
    talking = {stream for stream in order if 2 * talk[stream] > busy[stream]}
    compute = next((stream for stream in order if stream not in talking), None)

    def role(stream: int) -> str:
        if stream in talking:
            return "communication"
        return "compute" if stream == compute else "other"

    scale = 1e3 * max(len(traces), 1)
    return tuple(StreamTimes(role(its), busy[its] / scale, idle[its] / scale) for its in order)


def _work(trace: StepTrace) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event.get("cat") in WORK]


@contextmanager
def profiled_step(traces: list[StepTrace]) -> Iterator[None]:
    """Add a trace of the device within this context, which begins and ends with an idle device."""
    # Imported here because readers of results need no PyTorch.
    import torch
    from torch.profiler import profile

    torch.cuda.synchronize()
    with profile(activities=[getattr(torch.profiler.ProfilerActivity, PROFILED)]) as profiler:
        yield
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        traces.append(json.loads(path.read_text()))
