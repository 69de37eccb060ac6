"""A plan as a trace in Chrome's JSON, for Perfetto (ui.perfetto.dev) and chrome://tracing."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from instances.formats.plan_target import name_of_tensor, occupied_steps, stream_of_tensors
from planners.files.output_file import write_output
from planners.model.columns import INT64_MAX, IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.model.problem_fields import liveness

TARGET = "a Perfetto trace"
# Perfetto takes process 0 and thread 0 for the idle ones, and looks threads up by their number
# alone; so both start at 1 and no two lanes share a number.
COUNTERS_PROCESS = 1


def write_perfetto_trace(problem: Problem, plan: Plan, path: Path) -> None:
    """Write a plan as events over time.

    A process stands for a stream and a thread for a lane, in which no two tensors are alive at
    once; a tensor takes the lowest lane that is free. Each tensor is an event over its lifetime,
    with its offset and its end in bytes, and a tensor with a gap is several. Two counters show the
    live and the reserved bytes of the plan. A step takes a microsecond.

    Source: "Trace Event Format", the JSON object format.
    """
    rows = occupied_steps(problem, plan, TARGET)
    events = [*_tensor_events(problem, plan, rows), *_counter_events(problem, plan)]
    trace = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "problem": problem.name,
            "tensors": problem.tensor_count,
            "peak": plan.peak,
            "time": "one microsecond is one step of the global order",
        },
    }
    write_output(path, json.dumps(trace, separators=(",", ":")).encode())


def _tensor_events(problem: Problem, plan: Plan, rows: IntColumn) -> Iterator[dict[str, Any]]:
    streams = np.array(stream_of_tensors(problem), dtype=np.int64)[rows[:, 0]]
    threads = COUNTERS_PROCESS + 1
    for stream in np.unique(streams).tolist():
        process = COUNTERS_PROCESS + 1 + stream
        yield _named("process_name", process, threads, f"stream {stream}")
        first = threads
        own = rows[streams == stream]
        for lane, tensor, start, end in _in_lanes(own[np.lexsort((own[:, 0], own[:, 1]))]):
            if first + lane == threads:
                yield _named("thread_name", process, threads, f"lane {lane}")
                threads += 1
            offset, size = int(plan.offsets[tensor]), int(problem.size[tensor])
            yield {
                "ph": "X",
                "name": name_of_tensor(problem, tensor),
                "cat": "tensor",
                "pid": process,
                "tid": first + lane,
                "ts": start,
                "dur": end - start,
                "args": {
                    "tensor": tensor,
                    "bytes": size,
                    "offset": offset,
                    "offset_end": offset + size,
                },
            }


def _in_lanes(rows: IntColumn) -> Iterator[tuple[int, int, int, int]]:
    """Put each row, by rising start, into the lowest lane in which it overlaps no other row."""
    running: list[tuple[int, int]] = []
    free: list[int] = []
    lanes = 0
    for tensor, start, end in rows.tolist():
        while running and running[0][0] <= start:
            heapq.heappush(free, heapq.heappop(running)[1])
        if not free:
            free.append(lanes)
            lanes += 1
        lane = heapq.heappop(free)
        heapq.heappush(running, (end, lane))
        yield lane, tensor, start, end


def _counter_events(problem: Problem, plan: Plan) -> Iterator[dict[str, Any]]:
    yield _named("process_name", COUNTERS_PROCESS, COUNTERS_PROCESS, f"memory of {problem.name}")
    steps, live = liveness(problem)
    steps = steps - steps.min(initial=INT64_MAX)
    for step, alive in zip(steps.tolist(), live.tolist(), strict=True):
        yield _count("live bytes", step, alive)
    for step in sorted({0, *steps[-1:].tolist()}):
        yield _count("reserved bytes", step, plan.peak)


def _count(name: str, step: int, value: int) -> dict[str, Any]:
    return {
        "ph": "C", "name": name, "pid": COUNTERS_PROCESS, "tid": COUNTERS_PROCESS, "ts": step,
        "args": {"bytes": value},
    }  # fmt: skip


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": {"name": name}}
