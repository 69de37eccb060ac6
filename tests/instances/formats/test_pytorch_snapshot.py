"""Snapshots of PyTorch's allocator: read as traces, and written to show plans."""

from __future__ import annotations

import gzip
import json
import pickle
import pickletools
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.formats import pytorch_snapshot
from instances.formats.json_stream import JsonStream
from instances.formats.pytorch_snapshot import (
    PYTORCH_SNAPSHOT,
    SEGMENT_ADDRESS,
    read_explained_snapshot,
    read_pytorch_snapshot_trace,
    write_planned_snapshot,
)
from instances.traces.allocation_trace import SEGMENT_KINDS
from planners import Plan, Problem, place, read_problem
from planners.errors import InstanceError, InvalidPlanError
from planners.files.problem_file import problem_digest
from planners.files.recording_slice import RecordingSlice
from planners.model.graph import Graph
from planners.model.reference import Reference, reference_of

BASE = 0x7F0000000000
FRAMES = [{"name": "forward", "filename": "model.py", "line": 7}]


def event(action: str, offset: int, size: int, stream: int = 0) -> dict[str, Any]:
    return {
        "action": action, "addr": BASE + offset, "size": size, "stream": stream,
        "time_us": 1_700_000_000_000_000, "frames": FRAMES,
    }  # fmt: skip


def block(size: int, requested: int, state: str, offset: int | None = None) -> dict[str, Any]:
    fields = {"size": size, "requested_size": requested, "state": state, "frames": FRAMES}
    return fields if offset is None else {**fields, "address": BASE + offset}


def segment(blocks: list[dict[str, Any]], **changed: Any) -> dict[str, Any]:
    size = sum(entry["size"] for entry in blocks)
    return {
        "device": 0, "address": BASE, "total_size": size, "stream": 0, "segment_type": "large",
        "blocks": blocks, **changed,
    }  # fmt: skip


def snapshot(
    *traces: list[dict[str, Any]], segments: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {
        "segments": segments or [],
        "device_traces": list(traces),
        "allocator_settings": {"expandable_segments": False, "PYTORCH_CUDA_ALLOC_CONF": ""},
    }


def dumped(folder: Path, content: Any, name: str = "run.pickle") -> Path:
    path = folder / name
    path.write_bytes(pickle.dumps(content))
    return path


# segment | A | B | oom | A asked free, done | C where A was | B asked free | (open end)
EVENTS = [
    event("segment_alloc", 0, 1 << 21), event("alloc", 0, 500), event("alloc", 512, 700, 9),
    event("oom", 0, 1 << 40), event("free_requested", 0, 500), event("free_completed", 0, 500),
    event("alloc", 0, 300), event("free_requested", 512, 700, 9),
]  # fmt: skip


def test_allocations_frees_and_segments_are_read(tmp_path: Path) -> None:
    trace = read_pytorch_snapshot_trace(dumped(tmp_path, snapshot(EVENTS)))
    assert trace.event_count == 7  # without the oom
    assert trace.size.tolist() == [500, 700, 300]
    assert trace.alloc.tolist() == [1, 2, 5]
    assert trace.free_requested.tolist() == [3, 6, 7]
    assert trace.freed.tolist() == [4, 7, 7]
    assert trace.stream.tolist() == [0, 9, 0]
    assert trace.address.tolist() == [BASE, BASE + 512, BASE]
    assert not trace.before.any()
    assert trace.segments.tolist() == [
        [0, SEGMENT_KINDS.index("segment_alloc"), BASE, 1 << 21, 0]
    ]  # fmt: skip


def test_a_slice_and_what_was_reserved_come_along(tmp_path: Path) -> None:
    path = dumped(tmp_path, snapshot(EVENTS))
    assert read_problem(path, RecordingSlice(round_to=512)).size.tolist() == [512, 1024, 512]
    assert reference_of(read_problem(path)) == Reference("PyTorch", 1 << 21, exact=True)
    with pytest.raises(InstanceError, match=r"run\.pickle: the trace marks no phases"):
        read_problem(path, RecordingSlice(-1))


@pytest.mark.parametrize("with_addresses", [True, False])
def test_a_block_that_is_held_and_never_named_was_there_all_along(
    tmp_path: Path, with_addresses: bool
) -> None:
    def at(offset: int) -> int | None:
        return offset if with_addresses else None

    blocks = [
        block(512, 300, "active_allocated", at(0)),
        block(1024, 1000, "active_allocated", at(512)),
        block(512, 0, "inactive", at(1536)),
        block(512, 77, "active_awaiting_free", at(2048)),
    ]
    content = snapshot([event("alloc", 0, 300)], segments=[segment(blocks, stream=5)])
    trace = read_pytorch_snapshot_trace(dumped(tmp_path, content))
    assert trace.size.tolist() == [1000, 77, 300]
    assert trace.before.tolist() == [True, True, False]
    assert trace.freed.tolist() == [1, 1, 1]
    assert trace.address.tolist() == [BASE + 512, BASE + 2048, BASE]
    assert trace.stream.tolist() == [5, 5, 0]


def test_a_segment_at_the_address_of_a_block_tells_nothing_of_it(tmp_path: Path) -> None:
    blocks = [block(512, 300, "active_allocated", 0)]
    content = snapshot([event("segment_map", 0, 1 << 21)], segments=[segment(blocks)])
    assert read_pytorch_snapshot_trace(dumped(tmp_path, content)).size.tolist() == [300]


def test_the_only_device_in_use_is_taken(tmp_path: Path) -> None:
    path = dumped(tmp_path, snapshot([], [event("alloc", 0, 8)], []))
    assert read_pytorch_snapshot_trace(path).origin["device"] == 1


def test_of_several_devices_one_is_named(tmp_path: Path) -> None:
    path = dumped(tmp_path, snapshot([event("alloc", 0, 8)], [], [event("alloc", 0, 9)]))
    with pytest.raises(InstanceError, match=r"number of one \(--device\), found 0, 2"):
        read_pytorch_snapshot_trace(path)
    assert read_pytorch_snapshot_trace(path, device=2).size.tolist() == [9]
    with pytest.raises(InstanceError, match="device 7: the snapshot has 3 devices"):
        read_pytorch_snapshot_trace(path, device=7)


def test_blocks_of_another_device_are_left_out(tmp_path: Path) -> None:
    held = segment([block(512, 300, "active_allocated", 4096)], device=1)
    path = dumped(tmp_path, snapshot([event("alloc", 0, 8)], [], segments=[held]))
    assert read_pytorch_snapshot_trace(path).size.tolist() == [8]
    assert read_pytorch_snapshot_trace(path, device=1).size.tolist() == [300]


def test_without_events_the_segments_name_the_device(tmp_path: Path) -> None:
    blocks = [block(512, 300, "active_allocated", 0)]
    path = dumped(tmp_path, snapshot([], [], segments=[segment(blocks, device=1)]))
    assert read_pytorch_snapshot_trace(path).size.tolist() == [300]


WHOLE = event("alloc", 0, 8)
EMPTY = segment([])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "one device in use is needed.* found none"),
        (7, "a dictionary is needed, found 7"),
        ({"segments": []}, "a dictionary with segments and device_traces is needed"),
        ({"segments": {}, "device_traces": []}, "segments: a list is needed"),
        ({"segments": [], "device_traces": [{}]}, "device_traces, device 0: a list is needed"),
        (snapshot([]), "one device in use is needed.* found none"),
        (snapshot([3]), "device 0, event 0: a dictionary with action"),  # type: ignore[list-item]
        (snapshot([{"action": []}]), "device 0, event 0: a dictionary with action"),
        (snapshot([{**WHOLE, "size": "8"}]), "device 0, event 0, size: a whole number"),
        (snapshot([{**WHOLE, "addr": -1}]), "device 0, event 0, addr: a whole number"),
        (snapshot([{**WHOLE, "addr": 2**64}]), r"event 0, addr: .* from 0 to 2\*\*64 - 1 is"),
        (snapshot([{**WHOLE, "stream": 2**63}]), "device 0, event 0, stream: a whole number"),
        (snapshot([WHOLE, WHOLE]), "event 1: an address is allocated once"),
        (snapshot([WHOLE], segments=[7]), "segments, entry 0: a dictionary"),  # type: ignore[list-item]
        (snapshot([WHOLE], segments=[{**EMPTY, "blocks": 3}]), "entry 0, blocks: a list"),
        (snapshot([WHOLE], segments=[{**EMPTY, "blocks": [3]}]), "block 0: a dictionary"),
        (snapshot([WHOLE], segments=[{**EMPTY, "address": None}]), "entry 0, address: a whole"),
        (snapshot([WHOLE], segments=[{**EMPTY, "blocks": [{}]}]), "block 0, size: a whole"),
        ({**snapshot([WHOLE]), "x": print}, "opcode STACK_GLOBAL, .* nothing was run"),
    ],
)
def test_a_wrong_snapshot_is_refused_in_one_line(
    tmp_path: Path, content: Any, message: str
) -> None:
    path = dumped(tmp_path, content)
    with pytest.raises(InstanceError, match=message) as raised:
        read_problem(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_files_are_bounded(tmp_path: Path) -> None:
    packed = tmp_path / "run.json.gz"
    spaces = b" " * (1 << 28)
    content = json.dumps(snapshot(EVENTS)).encode() + spaces
    packed.write_bytes(gzip.compress(content, compresslevel=1))
    with pytest.raises(InstanceError, match=r"run.json.gz: a file of .* bytes may ask for \d+ unp"):
        read_problem(packed)


HELD = segment([block(512, 300, "active_allocated", 8192)], stream=5)
CONTENTS = {
    "snapshot": snapshot([*EVENTS, {**event("alloc", 64, 9), "pool_id": (0, 3)}], segments=[HELD]),
    "segments": [HELD],
    "planned": {**snapshot(EVENTS), "allocator_settings": pytorch_snapshot.SETTINGS},
    "another device": snapshot([], EVENTS, segments=[HELD]),
}


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("ending", ["json", "json.gz", "pickle.gz", "txt"])
def test_a_snapshot_is_read_in_any_form(tmp_path: Path, kind: str, ending: str) -> None:
    content = CONTENTS[kind]
    data = pickle.dumps(content) if "pickle" in ending else json.dumps(content, indent=1).encode()
    path = tmp_path / f"run.{ending}"
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    problem, expected = read_problem(path), read_problem(dumped(tmp_path, content))
    assert problem.tensor_count > 0
    assert problem_digest(problem) == problem_digest(expected)
    assert {**problem.origin, "file": ""} == {**expected.origin, "file": ""}


def test_long_json_takes_the_memory_of_its_events_alone(tmp_path: Path) -> None:
    frames = [{"name": f"function {number}", "line": number} for number in range(2_000)]
    events = [{**event(action, 0, 8), "frames": frames} for action in ("alloc", "free_completed")]
    text = json.dumps(events)[1:-1]
    path = tmp_path / "run.json"
    with path.open("w") as file:
        file.write('{"segments": [], "device_traces": [[' + text)
        for _ in range(80):
            file.write("," + text)
        file.write("]]}")
    assert path.stat().st_size > 10 << 20
    tracemalloc.start()
    assert read_pytorch_snapshot_trace(path).request_count == 81
    assert tracemalloc.get_traced_memory()[1] < 6 << 20
    tracemalloc.stop()


def test_a_long_pickle_is_not_held_whole(tmp_path: Path) -> None:
    """Frames are shared, and a completed free has the list of its request."""
    frames = [{"name": f"f{number}", "filename": "a.py", "line": number} for number in range(600)]
    events: list[dict[str, Any]] = []
    for number in range(10_000):
        for action in ("alloc", "free_requested", "free_completed"):
            begin = number % 540
            is_shared = action == "free_completed"
            listed = events[-1]["frames"] if is_shared else frames[begin : begin + 60]
            events.append({**event(action, number % 50, 8), "frames": listed})
    path = dumped(tmp_path, snapshot(events))
    del events
    tracemalloc.start()
    told = read_explained_snapshot(path)
    # The lists of frames would take 11 MB, their events as much, and the file 7.
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()
    assert told.trace.request_count == 10_000
    assert told.trace.module_of(8) == "other | a.py:8 f8"


@pytest.mark.parametrize("form", [pickle.dumps, lambda content: json.dumps(content).encode()])
def test_addresses_may_have_the_highest_bit(tmp_path: Path, form: Callable[[Any], bytes]) -> None:
    top = 0xFFFF_8000_0000_0000
    events = [{**each, "addr": each["addr"] - BASE + top} for each in EVENTS]
    held = segment([block(512, 300, "active_allocated", 8192 + top - BASE)], address=top)
    path = tmp_path / "run.pickle"
    path.write_bytes(form(snapshot(events, segments=[held])))
    trace = read_pytorch_snapshot_trace(path)
    assert trace.size.tolist() == [300, 500, 700, 300]
    assert (trace.address - (top - 2**63)).tolist() == [8192, 0, 512, 0]


DAMAGED = json.dumps(snapshot(EVENTS)).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DAMAGED[:-9], "whole JSON|is needed, found its end"),
        (DAMAGED + b"x", "the end of the text is needed, found 'x'"),
        (DAMAGED.replace(b'"segments"', b"7"), "character 1: a name in quotes is needed, found '7"),
        (b'{"segments": {}}', "character 13: segments: a list is needed, found '{}}'"),
        (b'{"segments": [[]]}', "segments, entry 0: a dictionary is needed"),
        (b'{"segments": []}', "a dictionary with segments and device_traces is needed"),
        (b'{"segments" 7', "character 12: ':' is needed, found '7'"),
        (b'{"segments": [], "x": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"segments": [], "x": ' + b"1" * 5_000 + b"}", "too many digits"),
        (b'{"segments": [], "x": "\xff"}', "the file is not UTF-8 text"),
        (gzip.compress(DAMAGED)[:-9], "not a whole gzip file"),
    ],
)
def test_damaged_json_is_one_error(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(data)
    with pytest.raises(InstanceError, match=message) as raised:
        read_pytorch_snapshot_trace(path)
    assert str(raised.value).startswith(f"{path}: ")


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_a_stream_gives_the_values_of_the_text_however_it_is_cut(value: Any) -> None:
    text = json.dumps([value, {"a": value}], ensure_ascii=False).encode()
    stream = JsonStream(text[at : at + 1] for at in range(len(text)))
    found: list[Any] = []
    for index, _ in enumerate(stream.entries("list")):
        found.append(stream.value() if index == 0 else {n: stream.value() for n in stream.fields()})
    stream.require_end()
    assert found == [value, {"a": value}]


def test_the_first_bytes_tell_a_snapshot(tmp_path: Path) -> None:
    assert read_problem(dumped(tmp_path, snapshot(EVENTS), "run.snapshot")).tensor_count == 3
    assert not PYTORCH_SNAPSHOT.recognises(tmp_path / "model.bin", pickle.dumps([1, 2]))
    assert not PYTORCH_SNAPSHOT.recognises(tmp_path / "run.pickle", b"text")


@pytest.mark.gpu
def test_a_snapshot_that_pytorch_writes_is_read(tmp_path: Path) -> None:
    import torch

    torch.cuda.empty_cache()
    kept = torch.empty(1000, dtype=torch.uint8, device="cuda")
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    x = torch.empty(3_000_000, dtype=torch.uint8, device="cuda")
    y = torch.empty(5_000, dtype=torch.uint8, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x.add_(1)
    x.record_stream(side)
    addresses = [x.data_ptr(), y.data_ptr()]
    del x
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(str(tmp_path / "run.pickle"))
    torch.cuda.memory._record_memory_history(enabled=None)

    trace = read_pytorch_snapshot_trace(tmp_path / "run.pickle", torch.cuda.current_device())
    told = {
        (address, size): (before, requested < trace.event_count)
        for address, size, before, requested in zip(
            trace.address.tolist(), trace.size.tolist(), trace.before.tolist(),
            trace.free_requested.tolist(), strict=True,
        )
    }  # fmt: skip
    assert told[addresses[0], 3_000_000] == (False, True)
    assert told[addresses[1], 5_000] == (False, False)
    assert told[kept.data_ptr(), 1_000] == (True, False)


@pytest.mark.parametrize("state", [[], {}, None, 3])
def test_a_state_that_is_not_a_word_holds_nothing(tmp_path: Path, state: Any) -> None:
    held = segment([block(512, 500, state, 1 << 30)])
    trace = read_pytorch_snapshot_trace(dumped(tmp_path, snapshot(EVENTS, segments=[held])))
    assert trace.request_count == 3


def test_blocks_end_below_the_largest_address(tmp_path: Path) -> None:
    held = segment([block(1 << 62, 8, "active_allocated")] * 3)
    with pytest.raises(InstanceError, match=r"entry 0, block 1: it must end below 2\*\*63, found"):
        read_pytorch_snapshot_trace(dumped(tmp_path, snapshot(EVENTS, segments=[held])))


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


def test_a_problem_without_time_and_a_wrong_plan_are_refused(tmp_path: Path) -> None:
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
def test_a_written_snapshot_is_read_back(
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


# A segment of the pool (0, 7) at BASE, where one of the common pool was before it.
IN_TURN = [
    event("segment_alloc", 0, 1 << 21), event("alloc", 0, 500), event("free_completed", 0, 500),
    event("segment_free", 0, 1 << 21), event("segment_alloc", 0, 1 << 21), event("alloc", 0, 300),
    event("alloc", 1 << 21, 100),
]  # fmt: skip


def test_pools_are_those_that_the_events_name(tmp_path: Path) -> None:
    ids = [(0, 0), (0, 0), (0, 0), (0, 0), (0, 7), (0, 7), (3, 0)]
    events = [{**each, "pool_id": pool} for each, pool in zip(IN_TURN, ids, strict=True)]
    trace = read_pytorch_snapshot_trace(dumped(tmp_path, snapshot(events)))
    assert trace.pool.tolist() == [0, 1, 2]


def test_pools_are_those_of_segments_where_events_name_none(tmp_path: Path) -> None:
    private = {**segment([block(1 << 21, 0, "inactive", 0)]), "segment_pool_id": (0, 7)}
    # The second size is one that no device has.
    for size, pools in ((1 << 21, [0, 1, 0]), ((1 << 63) - 1, [0, 1, 1])):
        content = snapshot(IN_TURN, segments=[{**private, "total_size": size}])
        trace = read_pytorch_snapshot_trace(dumped(tmp_path, content))
        assert trace.pool.tolist() == pools


@pytest.mark.parametrize("pool", [7, (0,), (0, "1"), [7], {}, (0, 1.5)])
def test_a_pool_is_two_numbers(tmp_path: Path, pool: Any) -> None:
    events = [{**IN_TURN[1], "pool_id": pool}]
    with pytest.raises(InstanceError, match="event 0, pool_id: two whole numbers are needed"):
        read_pytorch_snapshot_trace(dumped(tmp_path, snapshot(events)))
