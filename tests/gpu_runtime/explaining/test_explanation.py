"""What an explanation says of programs whose fault is known."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from gpu_runtime.explaining.explained_moment import find_moment
from gpu_runtime.explaining.explanation import Explanation
from gpu_runtime.explaining.explanation_report import screen_of
from gpu_runtime.explaining.other_allocators import replay_changes
from gpu_runtime.explaining.stranded import Cause
from planners.errors import InstanceError
from tests.gpu_runtime.explaining.recorded_oom import Program
from tests.gpu_runtime.replaying.recordings import MIB

LIBRARY = "/usr/lib/python3/site-packages/torch"


def frame(name: str, filename: str, line: int = 7) -> dict[str, Any]:
    return {"name": name, "filename": filename, "line": line}


OWN = frame("train", "/home/me/project/train.py")
WEIGHT = [frame("_apply", f"{LIBRARY}/nn/modules/module.py"), OWN]
FORWARD = [
    frame("at::empty", "??"), frame("forward", f"{LIBRARY}/nn/modules/linear.py"),
    frame("forward", "/home/me/project/model.py", 3), OWN,
]  # fmt: skip
STATE = [frame("_init_group", f"{LIBRARY}/optim/adamw.py"), OWN]


def explain(path: Path, memory: int | None = None, failure: int | None = None) -> Explanation:
    moment = find_moment(path, None, memory, failure)
    return Explanation(path.name, moment, replay_changes(moment))


def kept_apart(capacity: int) -> Program:
    """Return a program that fails because a small block keeps the segment of a large one.

    The live blocks and the request take 97 MiB.
    """
    program = Program(capacity)
    idle = program.allocate(4 * MIB, stream=1)
    assert idle is not None
    program.free(idle)
    program.allocate(32 * MIB, frames=WEIGHT)
    large = program.allocate(64 * MIB, frames=FORWARD)
    assert large is not None
    program.free(large)
    program.allocate(2 * MIB, frames=STATE)
    assert program.allocate(63 * MIB, frames=FORWARD) is None
    return program


def test_a_small_block_that_keeps_a_segment_is_named(tmp_path: Path) -> None:
    found = explain(kept_apart(120 * MIB).write(tmp_path / "oom.pickle"), memory=128 * MIB)
    moment = found.moment
    assert (moment.room, moment.outside) == (120 * MIB, 8 * MIB)
    [split] = found.stranded
    assert (split.cause, split.size) == (Cause.SPLIT, 62 * MIB)
    smallest = split.holders[0].smallest
    told = "optimizer states | project/train.py:7 train"
    assert (smallest.size, smallest.told) == (2 * MIB, told)
    assert moment.failed is not None
    assert moment.failed.device_free == 24 * MIB
    assert moment.failed.told.endswith(" | project/model.py:3 forward")
    assert [one.reason_against(moment.failed) for one in found.free] == ["too short"]
    assert [(one.kind, one.size) for one in found.kinds] == [
        ("weights", 32 * MIB), ("optimizer states", 2 * MIB),
    ]  # fmt: skip
    assert [one.kind for one in found.places] == ["project/train.py:7 train"]


def test_each_change_passes_or_fails_as_the_sizes_say(tmp_path: Path) -> None:
    found = explain(kept_apart(120 * MIB).write(tmp_path / "oom.pickle"))
    replays = found.replays
    assert replays is not None
    assert replays.agrees
    assert replays.as_it_was.fits is False
    assert replays.live_peak == 97 * MIB
    passes = {one.label.partition(":")[0]: one.fits for one in replays.changes}
    assert passes == {
        "expandable_segments": True, "max_split_size_mb": True, "planned memory": True,
        "garbage_collection_threshold": False, "roundup_power2_divisions": False,
    }  # fmt: skip
    assert [one.fits for one in replays.changes] == [True] * 3 + [False] * 2
    assert found.advice()[0].startswith("expandable_segments:True would have passed")


@pytest.mark.parametrize("size", [60 * MIB, 1 << 62])
def test_nothing_helps_where_live_bytes_exceed_the_device(tmp_path: Path, size: int) -> None:
    program = Program(96 * MIB)
    program.allocate(40 * MIB)
    assert program.allocate(60 * MIB) is None
    program.events[-1]["size"] = size
    found = explain(program.write(tmp_path / "oom.pickle"))
    assert found.lacking == size - 56 * MIB
    [only] = found.advice()
    assert "no allocator and no setting helps" in only
    if found.replays is not None:
        assert not any(one.fits for one in found.replays.changes)
    assert explain(kept_apart(120 * MIB).write(tmp_path / "oom.pickle")).lacking < 0


@pytest.mark.parametrize("is_expandable", [False, True])
def test_the_replay_of_what_was_ends_as_the_program_did(
    tmp_path: Path, is_expandable: bool
) -> None:
    # A free that completes while PyTorch seeks memory comes too early in a replay.
    for seed in range(6):
        program = Program(160 * MIB, seed, is_expandable=is_expandable, waits=0.0)
        program.run(turns=20)
        found = explain(program.write(tmp_path / "run.pickle"))
        assert found.replays is not None
        assert found.replays.agrees
        partial = program.write(tmp_path / "run.pickle", forgotten=len(program.events) // 2)
        assert "the history is partial" in explain(partial).moment.notes[0]


def test_the_settings_of_the_file_are_kept(tmp_path: Path) -> None:
    program = Program(128 * MIB, settings="roundup_power2_divisions:2")
    program.allocate(50 * MIB)
    assert program.allocate(70 * MIB) is None
    path = program.write(tmp_path / "oom.pickle")
    found = explain(path)
    assert found.replays is not None
    # 48 or 64 MiB, then 96.
    assert found.replays.as_it_was.reserved_peak == 160 * MIB
    assert "rounding" not in found.advice()[0]


@pytest.mark.parametrize("is_told", [True, False])
def test_without_segments_the_history_is_replayed(tmp_path: Path, is_told: bool) -> None:
    program = kept_apart(120 * MIB)
    assert program.at_failure is not None
    content = program.snapshot() | {"segments": []}
    if not is_told:  # the request is made, and whether it fails depends on the memory
        *events, failed = content["device_traces"][0]
        made = {**failed, "action": "alloc", "addr": 1}
        events = [event for event in events if event["action"] != "segment_free"]
        content["device_traces"] = [[*events, made]]
    path = tmp_path / "history.pickle"
    path.write_bytes(pickle.dumps(content))
    found = explain(path, memory=120 * MIB)
    assert found.moment.failed is not None
    assert (found.moment.failed.device_free, found.moment.room) == (24 * MIB, 120 * MIB)
    assert found.reserved == sum(one["total_size"] for one in program.at_failure)
    assert [one.kind for one in found.kinds] == ["weights", "optimizer states"]
    assert found.replays is not None
    assert found.replays.agrees
    if not is_told:
        found = explain(path)
        assert found.moment.asked is not None
        assert found.moment.failed is None
        assert found.reserved == 180 * MIB


def test_only_a_history_is_replayed(tmp_path: Path) -> None:
    program = kept_apart(120 * MIB)
    path = program.write(tmp_path / "oom.pickle", forgotten=len(program.events) - 1)
    assert explain(path).replays is None


def test_where_nothing_failed_the_whole_history_is_replayed(tmp_path: Path) -> None:
    program = Program(1 << 30)
    for size in (40 * MIB, 60 * MIB):
        block = program.allocate(size)
        assert block is not None
        program.free(block)
    # These lie in the two idle segments.
    program.allocate(60 * MIB)
    program.allocate(40 * MIB)
    path = tmp_path / "history.pickle"
    path.write_bytes(pickle.dumps(program.snapshot() | {"segments": []}))
    found = explain(path)
    assert (found.reserved, found.allocated) == (100 * MIB, 60 * MIB)
    assert found.replays is not None
    assert found.replays.live_peak == 100 * MIB


def two_failures() -> Program:
    """Return a program that goes on after its first failure, and after its second one."""
    program = kept_apart(120 * MIB)
    kept = program.allocate(20 * MIB)
    assert kept is not None
    program.allocate(60 * MIB, frames=STATE)
    program.free(kept)
    program.allocate(10 * MIB)
    return program


def test_of_several_failures_the_last_or_a_named_one_is_explained(tmp_path: Path) -> None:
    path = two_failures().write(tmp_path / "oom.pickle")
    last, first = explain(path), explain(path, failure=1)
    assert last.moment.failed is not None
    assert first.moment.failed is not None
    assert (last.moment.failed.size, first.moment.failed.size) == (60 * MIB, 63 * MIB)
    assert (last.allocated, first.allocated) == (54 * MIB, 34 * MIB)
    assert [*map(str, last.moment.notes)] == [
        "2 requests failed; this is about number 2 (--failure names another)",
        "the program went on after the failure, with 1 request more",
    ]
    for number in (0, 3):
        with pytest.raises(InstanceError, match=f"one of the 2 .* from 1, found {number}"):
            explain(path, failure=number)


def test_of_several_devices_the_one_that_failed_is_explained(tmp_path: Path) -> None:
    fine, failed = Program(1 << 30), kept_apart(120 * MIB)
    fine.allocate(40 * MIB)
    content = failed.snapshot()
    content["device_traces"].insert(0, fine.events)
    content["segments"] = [{**one, "device": 1} for one in content["segments"]] + fine.segments()
    path = tmp_path / "oom.pickle"
    path.write_bytes(pickle.dumps(content))
    assert screen_of(explain(path)).startswith("oom.pickle, GPU 1: at the request that failed")
    assert find_moment(path, 0, None).failed is None


def test_a_setting_of_the_program_is_left_out_too(tmp_path: Path) -> None:
    """Expandable segments with a limit on splitting grow, and either setting alone does not."""
    settings = "expandable_segments:True,max_split_size_mb:128"
    program = Program(1 << 40, is_expandable=True, settings=settings)
    for _ in range(20):
        large = [program.allocate(91 * MIB), program.allocate(91 * MIB // 2)]
        program.allocate(2 * MIB)
        for block in large:
            assert block is not None
            program.free(block)
    replays = explain(program.write(tmp_path / "run.pickle")).replays
    assert replays is not None
    found = {one.label: one.reserved_peak for one in replays.changes}
    assert replays.as_it_was.reserved_peak > 2000 * MIB
    assert max(found["without max_split_size_mb"], found["expandable_segments:False"]) < 500 * MIB
    assert "max_split_size_mb:64" not in found


def test_a_request_is_told_where_nothing_is_free(tmp_path: Path) -> None:
    program = Program(96 * MIB)
    program.allocate(10 * MIB)
    assert program.allocate(500 * MIB) is None
    screen = screen_of(explain(program.write(tmp_path / "oom.pickle")))
    assert "the request of 500.0 MiB (524,288,000) on stream 0 in the common pool failed" in screen
    assert "nothing that was reserved is free" in screen


@pytest.mark.parametrize(("memory", "room"), [(None, 162 * MIB - 1), (150 * MIB, 150 * MIB)])
def test_a_limit_of_the_process_is_no_full_device(
    tmp_path: Path, memory: int | None, room: int
) -> None:
    """The program had 98 MiB, and 63 MiB more would have taken 64 from the device."""
    path = kept_apart(120 * MIB).write(tmp_path / "oom.pickle")
    snapshot = pickle.loads(path.read_bytes())
    for event in snapshot["device_traces"][0]:
        if "device_free" in event:
            event["device_free"] = 1 << 30
    path.write_bytes(pickle.dumps(snapshot))
    moment = explain(path, memory=memory).moment
    reserved = sum(segment.size for segment in moment.segments)
    assert (moment.is_limited, moment.outside) == (True, None)
    assert moment.room == min(room, reserved + 64 * MIB - 1)
