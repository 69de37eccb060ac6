"""A plan as a trace for Perfetto: schema, lanes and counters."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.formats.perfetto_trace import write_perfetto_trace
from planners import Plan, Problem, place
from planners.errors import InstanceError, InvalidPlanError
from planners.model.graph import Graph
from planners.model.problem_fields import liveness

PROBLEM = Problem([10, 20, 10, 0], [5, 5, 7, 5], [7, 9, 9, 6], tensor_name=["a", "b", "c", "none"])
PLAN = Plan.of(PROBLEM, [0, 10, 0, 0])


def trace_of(problem: Problem, plan: Plan, folder: Path) -> dict[str, Any]:
    write_perfetto_trace(problem, plan, folder / "plan.json")
    trace: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    return trace


def require_schema(trace: dict[str, Any]) -> None:
    """Hold every event against the JSON object format of the trace events."""
    assert trace["displayTimeUnit"] in ("ms", "ns")
    named = set()
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert type(event["pid"]) is type(event["tid"]) is type(event["ts"]) is int
        assert event["ts"] >= 0
        assert min(event["pid"], event["tid"]) > 0
        if event["ph"] == "X":
            assert type(event["dur"]) is int
            assert event["dur"] > 0
            assert (event["pid"], event["tid"]) in named
        elif event["ph"] == "C":
            assert all(type(value) is int for value in event["args"].values())
        else:
            assert event["ph"] == "M"
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
            named |= {(event["pid"], event["tid"])} if event["name"] == "thread_name" else set()


def test_a_tensor_is_an_event_over_its_lifetime(tmp_path: Path) -> None:
    trace = trace_of(PROBLEM, PLAN, tmp_path)
    require_schema(trace)
    tensors = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [(e["name"], e["tid"], e["ts"], e["dur"]) for e in tensors] == [
        ("a", 2, 0, 2), ("b", 3, 0, 4), ("c", 2, 2, 2),
    ]  # fmt: skip
    assert tensors[1]["args"] == {"tensor": 1, "bytes": 20, "offset": 10, "offset_end": 30}


def test_counters_show_live_and_reserved_bytes(tmp_path: Path) -> None:
    counts = defaultdict(list)
    for event in trace_of(PROBLEM, PLAN, tmp_path)["traceEvents"]:
        if event["ph"] == "C":
            counts[event["name"]].append((event["ts"], event["args"]["bytes"]))
    assert dict(counts) == {
        "live bytes": [(0, 30), (1, 30), (2, 30), (4, 0)],
        "reserved bytes": [(0, 30), (4, 30)],
    }


def test_a_stream_is_a_process(tmp_path: Path) -> None:
    graph = Graph(op=["x", "y"], stream=[0, 1], producer=[0, 1], consumers=[[1], []], control=[])
    problem = Problem([8, 8], graph=graph)
    events = trace_of(problem, place(problem), tmp_path)["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {1: "memory of problem", 2: "stream 0", 3: "stream 1"}
    assert [(e["pid"], e["tid"]) for e in events if e["ph"] == "X"] == [(2, 2), (3, 3)]


@pytest.mark.parametrize("sizes", [[], [0]])
def test_nothing_to_show_is_still_a_trace(tmp_path: Path, sizes: list[int]) -> None:
    problem = Problem(sizes, [3] * len(sizes), [4] * len(sizes))
    require_schema(trace_of(problem, place(problem), tmp_path))


def test_a_problem_without_time_and_a_wrong_plan_are_refused(tmp_path: Path) -> None:
    pairs = Problem([1, 1], unsafe_pairs=[[0, 1]])
    with pytest.raises(InstanceError, match="a Perfetto trace holds tensors with lifetimes"):
        write_perfetto_trace(pairs, place(pairs), tmp_path / "plan.json")
    with pytest.raises(InvalidPlanError):
        write_perfetto_trace(PROBLEM, Plan.of(PROBLEM, [0, 0, 0, 0]), tmp_path / "plan.json")


tensors = st.lists(st.tuples(st.integers(0, 99), st.integers(-50, 50), st.integers(1, 20)))


@given(tensors)
def test_no_lane_holds_two_tensors_at_once(
    tmp_path_factory: pytest.TempPathFactory, tensors: list[tuple[int, int, int]]
) -> None:
    problem = Problem(
        [size for size, _, _ in tensors],
        [start for _, start, _ in tensors],
        [start + length for _, start, length in tensors],
    )
    trace = trace_of(problem, place(problem), tmp_path_factory.mktemp("lanes"))
    require_schema(trace)
    lanes = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            lanes[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in lanes.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(spans)))
    alive = np.zeros(200, dtype=np.int64)
    for start, end in (span for spans in lanes.values() for span in spans):
        alive[start:end] += 1
    assert len(lanes) == alive.max(), "as few lanes as tensors are alive at once"
    live = [e["args"]["bytes"] for e in trace["traceEvents"] if e["name"] == "live bytes"]
    assert live == liveness(problem)[1].tolist()
