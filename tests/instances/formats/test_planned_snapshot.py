"""A plan as a memory snapshot: what the events say, and that PyTorch's own viewer takes it."""

from __future__ import annotations

import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.formats.pytorch_snapshot import (
    SEGMENT_ADDRESS,
    read_pytorch_snapshot_trace,
    write_planned_snapshot,
)
from planners import Plan, Problem, place, read_problem
from planners.errors import InstanceError, InvalidPlanError
from planners.model.graph import Graph
from planners.model.reference import reference_of

# What the viewer's own reader, in JavaScript, knows of a pickle.
VIEWER_OPCODES = {
    "APPENDS", "BINGET", "BININT", "BININT1", "BININT2", "EMPTY_DICT", "EMPTY_LIST", "FRAME",
    "LONG1", "LONG_BINGET", "MARK", "MEMOIZE", "PROTO", "SETITEMS", "SHORT_BINUNICODE", "STOP",
    "TUPLE2", "APPEND", "NEWFALSE", "BINPUT", "BINUNICODE", "EMPTY_TUPLE", "NEWTRUE", "NONE",
    "BINFLOAT", "TUPLE", "TUPLE1", "TUPLE3", "SETITEM",
}  # fmt: skip

#  30 +---------+
#     |    b    |    c takes the bytes of a where that has ended; the gap of b frees its bytes
#  10 +----+----+
#     | a  | c  |
#   0 +----+----+
#     5    7    9
PROBLEM = Problem(
    [10, 20, 10, 0], [5, 5, 7, 5], [7, 9, 9, 6],
    gaps=[[1, 6, 8]], tensor_name=["a", "b", "c", "empty"], name="toy",
)  # fmt: skip
PLAN = Plan.of(PROBLEM, [0, 10, 0, 0])


def test_events_follow_the_lifetimes(tmp_path: Path) -> None:
    write_planned_snapshot(PROBLEM, PLAN, tmp_path / "plan.pickle")
    snapshot = pickle.loads((tmp_path / "plan.pickle").read_bytes())
    (events,) = snapshot["device_traces"]
    told = [
        (event["time_us"], event["action"], event["addr"] - SEGMENT_ADDRESS, event["size"])
        for event in events
        if event["action"] != "free_requested"
    ]
    assert told == [
        (0, "segment_alloc", 0, 30),
        (0, "alloc", 0, 10),
        (0, "alloc", 10, 20),
        (1, "free_completed", 10, 20),
        (2, "free_completed", 0, 10),
        (2, "alloc", 0, 10),
        (3, "alloc", 10, 20),
        (4, "free_completed", 10, 20),
        (4, "free_completed", 0, 10),
    ]
    assert events[1]["frames"] == [{"name": "a", "filename": "toy", "line": 0}]
    (segment,) = snapshot["segments"]
    assert (segment["address"], segment["total_size"]) == (SEGMENT_ADDRESS, 30)


def test_streams_come_from_the_graph(tmp_path: Path) -> None:
    graph = Graph(op=["x", "y"], stream=[0, 3], producer=[0, 1], consumers=[[1], []], control=[])
    problem = Problem([8, 8], graph=graph)
    write_planned_snapshot(problem, place(problem), tmp_path / "plan.pickle")
    trace = read_pytorch_snapshot_trace(tmp_path / "plan.pickle")
    assert trace.stream.tolist() == problem.graph.stream[problem.graph.producer].tolist()  # type: ignore[union-attr]


def test_a_problem_without_bytes_has_no_segment(tmp_path: Path) -> None:
    problem = Problem([0], [0], [1])
    write_planned_snapshot(problem, place(problem), tmp_path / "plan.pickle")
    snapshot = pickle.loads((tmp_path / "plan.pickle").read_bytes())
    assert snapshot["segments"] == snapshot["device_traces"][0] == []


def test_what_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    pairs = Problem([1, 1], unsafe_pairs=[[0, 1]])
    with pytest.raises(InstanceError, match="a memory snapshot holds tensors with lifetimes"):
        write_planned_snapshot(pairs, place(pairs), tmp_path / "plan.pickle")
    with pytest.raises(InvalidPlanError):
        write_planned_snapshot(PROBLEM, Plan.of(PROBLEM, [0, 0, 0, 0]), tmp_path / "plan.pickle")
    assert list(tmp_path.iterdir()) == []


tensors = st.lists(
    st.tuples(st.integers(1, 2**40), st.integers(-50, 50), st.integers(1, 20)), min_size=1
)


@given(tensors)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, tensors: list[tuple[int, int, int]]
) -> None:
    sizes, starts, lengths = map(list, zip(*tensors, strict=True))
    ends = np.add(starts, lengths).tolist()
    problem = Problem(sizes, starts, ends)
    plan = place(problem)
    path = tmp_path_factory.mktemp("round") / "plan.pickle"
    write_planned_snapshot(problem, plan, path)
    trace = read_pytorch_snapshot_trace(path)
    written = list(zip(sizes, (plan.offsets + SEGMENT_ADDRESS).tolist(), strict=True))
    read = list(zip(trace.size.tolist(), trace.address.tolist(), strict=True))
    assert sorted(written) == sorted(read)
    assert not trace.before.any()
    assert (trace.freed < trace.event_count).all()


def test_the_viewer_knows_every_opcode(tmp_path: Path) -> None:
    problem = Problem([2**40] * 3000, range(3000), range(1, 3001), name="n" * 300)
    write_planned_snapshot(problem, place(problem), tmp_path / "plan.pickle")
    opcodes = list(pickletools.genops((tmp_path / "plan.pickle").read_bytes()))
    assert {opcode.name for opcode, _, _ in opcodes} <= VIEWER_OPCODES
    assert opcodes[0][1] in (2, 3, 4), "the viewer refuses other protocols"


@pytest.mark.torch
def test_pytorch_takes_it(tmp_path: Path) -> None:
    from torch.cuda import _memory_viz as viewer

    write_planned_snapshot(PROBLEM, PLAN, tmp_path / "plan.pickle")
    snapshot = pickle.loads((tmp_path / "plan.pickle").read_bytes())
    assert "total_reserved: 30.0B" in viewer.segsum(snapshot)
    told = viewer.trace(snapshot)
    assert "= cudaMalloc(139637976727552, 30.0B)" in told
    assert "[10:20.0B]" in told
    lines: list[str] = []

    def keep(text: str) -> str:
        lines.append(text)
        return ""

    viewer.segments(snapshot, keep)
    viewer.memory(snapshot, keep)
    viewer.compare(snapshot["segments"], snapshot["segments"], keep)
    assert "inactive" in lines[0]
    shown: Any = viewer.trace_plot(snapshot)
    assert "MemoryViz.js" in shown
    assert "MemoryViz.js" in viewer.segment_plot(snapshot)


def test_a_plan_that_is_read_again_tells_nothing_of_an_allocator(tmp_path: Path) -> None:
    path = tmp_path / "plan.pickle"
    write_planned_snapshot(PROBLEM, PLAN, path)
    assert reference_of(read_problem(path)) is None
    assert len(read_pytorch_snapshot_trace(path).segments) == 0
    # The same events of an allocator are what it had reserved.
    snapshot = pickle.loads(path.read_bytes())
    path.write_bytes(pickle.dumps({**snapshot, "allocator_settings": {}}))
    reference = reference_of(read_problem(path))
    assert reference is not None
    assert reference.reserved == PLAN.peak
