"""``python -m gpu_runtime.replay`` in this process: options, output, exit statuses."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result as CommandResult

from gpu_runtime.replay import app
from instances.formats.recorded_trace import write_recorded_trace
from instances.traces.allocation_trace import AllocationTrace
from planners.compare.plots import OnlinePlot, find_plot
from planners.files.problem_file import write_problem
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.problem import Problem
from planners.model.request_sequence import RequestSequence, requests_of_problem
from planners.online.online_report import APART, FROM_LIFETIMES, online_notes
from planners.online.online_run import OnlineRow, OnlineRun
from planners.processes import standard_output
from planners.registry import register_online
from tests.command_line import run_command
from tests.gpu_runtime.replaying.recordings import MIB, caching_trace, random_trace

OURS = ("pytorch-caching", "pytorch-expandable", "gmlake", "vpmm", "planned", "stweaver")
KEYS = {
    "schema", "version", "environment", "instance", "file", "check", "recorded", "events",
    "requests", "device", "capacity", "left_out", "results",
}  # fmt: skip


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.npz"
    write_recorded_trace(caching_trace(), path)
    return path


@pytest.fixture
def interrupted(own_registry: None) -> str:  # noqa: ARG001
    """Register an allocator at which Ctrl-C comes; return its name."""

    @register_online("interrupted-one")
    def interrupted_one(_requests: RequestSequence, _terms: OnlineTerms) -> OnlineResult:
        """Never come to an end."""
        raise KeyboardInterrupt

    return "interrupted-one"


def replay(*arguments: str | Path) -> CommandResult:
    return run_command(app, *arguments)


def record(*arguments: str | Path) -> dict[str, Any]:
    answer = replay(*arguments, "--json")
    assert answer.exit_code == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def refused(*arguments: str | Path) -> str:
    answer = replay(*arguments)
    assert (answer.exit_code, answer.stdout) == (2, "")
    return answer.stderr


def test_an_allocator_of_a_plugin_is_one_of_them(
    recording: Path,
    tmp_path: Path,
    own_registry: None,  # noqa: ARG001
) -> None:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import os, sys\nimport planners\n"
        "@planners.register_online('leaves')\n"
        "def leaves(requests, terms):\n"
        "    os.write(1, b'noise')\n"
        "    sys.exit(0)\n"
        "@planners.register_online('one-byte')\n"
        "def one_byte(requests, terms):\n"
        "    return planners.OnlineResult(1, 1, 1, {}, 0.0)\n"
    )
    given = (recording, "--allocators", "leaves,one-byte,pytorch-caching")
    answer = replay(*given, "--plugin", plugin, "--json")
    assert answer.exit_code == 1
    left, byte, caching = json.loads(answer.stdout)["results"]
    assert (left["reserved_peak"], left["reason"]) == (None, "SystemExit: 0")
    assert (byte["reserved_peak"], byte["valid"]) == (None, False)
    assert (caching["reserved_peak"] > 0, caching["valid"]) == (True, True)
    rows = replay(*given).stdout.splitlines()[2:5]
    assert [row.split()[:2] for row in rows[:2]] == [["leaves", "invalid"], ["one-byte", "invalid"]]
    assert rows[2].startswith("*  pytorch-caching")


def test_a_table_of_all_and_what_they_asked_of_the_device(recording: Path) -> None:
    answer = replay(recording)
    assert answer.exit_code == 0
    above, _, *rest = answer.stdout.splitlines()
    rows, (blank, kinds, *calls) = rest[: len(OURS)], rest[len(OURS) :]
    assert above == "run: 6 events, 4 requests, 1 stream"
    assert [row.removeprefix("*").split()[0] for row in rows] == list(OURS)
    assert "*" in {row[0] for row in rows} <= {"*", " "}
    assert (blank, kinds.split()[:3]) == ("", ["device", "calls", "allocate_plain"])
    assert calls[0].split()[:2] == ["pytorch-caching", "2"]
    calls, notes = calls[: len(OURS)], calls[len(OURS) :]
    assert [line.split()[0] for line in calls] == list(OURS)
    (blank, figures, vpmm, stweaver), notes = notes[:4], notes[4:]
    assert (blank, figures.split()[:3]) == ("", ["own", "figures", "chunks"])
    assert vpmm.split()[:4] == ["vpmm", "1", "8,796,093,022,208", "1"]
    assert stweaver.split()[:3] == ["stweaver", "-", "-"]
    assert [note.partition(": ")[0] for note in notes] == ["planned, stweaver"]
    assert "planned nothing" in notes[0]


def test_json_has_the_same(recording: Path) -> None:
    found = record(recording, "--allocators", "pytorch-*")
    assert found.keys() == KEYS
    assert (found["instance"], found["events"], found["requests"]) == ("run", 6, 4)
    assert (found["recorded"], found["device"], found["check"]) == (True, "ledger", None)
    caching, expandable = found["results"]
    assert (caching["reserved_peak"], expandable["reserved_peak"]) == (22 * MIB, 22 * MIB)
    assert caching["device_calls"] == {"allocate_plain": 2}
    assert expandable["device_calls"]["reserve_range"] == 2


def test_a_replay_agrees_with_what_was_recorded(recording: Path) -> None:
    answer = replay(recording, "--check")
    assert answer.exit_code == 0
    assert answer.stdout.splitlines()[-1] == "4 of 4 requests and 2 of 2 segments as recorded"
    assert record(recording, "--check")["check"] == {
        "agreeing_requests": 4, "requests": 4, "agreeing_segments": 2, "segments": 2,
        "difference": "",
    }  # fmt: skip


def test_the_first_event_that_does_not_agree_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    trace = caching_trace()
    address = trace.address.copy()
    address[2] += 4 * MIB
    write_recorded_trace(caching_trace(address=address), path)
    answer = replay(path, "--check")
    assert answer.exit_code == 1
    last = answer.stdout.splitlines()[-1]
    assert last.startswith("2 of 4 requests and 2 of 2 segments as recorded; event 4, request 2 ")


def test_settings_of_pytorch_change_what_it_does(recording: Path) -> None:
    found = record(recording, "--settings", "large_segment_size_mb:40", "--allocators", "all")
    assert [row["allocator"] for row in found["results"]] == [
        "pytorch-caching:settings=large_segment_size_mb:40",
        "pytorch-expandable:settings=large_segment_size_mb:40",
        *OURS[2:],
    ]
    assert [row["reserved_peak"] for row in found["results"]][:2] == [42 * MIB] * 2
    assert "did you mean 'max_split_size_mb'" in refused(
        recording, "--settings", "max_splt_size_mb:3"
    )


def test_a_device_with_less_memory_than_is_needed(recording: Path) -> None:
    given = (recording, "--allocators", "pytorch-caching", "--capacity", "8MiB")
    assert record(*given)["results"][0]["out_of_memory_row"] == 1
    answer = replay(*given)
    assert "out of memory at row 1 of 6" in answer.stdout
    assert "*" not in answer.stdout


def test_a_device_in_the_memory_of_the_host(recording: Path) -> None:
    ledger, simulated = (
        record(recording, "--device", device) for device in ("ledger", "simulated")
    )
    assert simulated["device"] == "simulated"
    for ours, theirs in zip(ledger["results"], simulated["results"], strict=True):
        assert ours["reserved_peak"] == theirs["reserved_peak"]


def test_calls_are_timed_on_a_device_that_is_more_than_accounts(recording: Path) -> None:
    *_, above, caching, expandable = replay(
        recording, "--device", "simulated", "--allocators", "pytorch-*"
    ).stdout.splitlines()
    assert above.split()[:3] == ["us", "an", "event"]
    # Of a kind of call that there was not there is no mean.
    assert "-" in caching.split()[3:]
    assert "-" in expandable.split()[3:]
    for row in record(recording, "--device", "simulated")["results"]:
        # What was asked beside the counted calls is timed only.
        assert row["device_calls"].keys() == row["device_seconds"].keys() - {"other"}
        # Calls before the first row and after the last are timed, but are no part of `seconds`.
        assert sum(row["device_seconds"].values()) > 0
        assert 0 < row["last_iteration_seconds"] <= row["seconds"]
    assert all(row["device_seconds"] == {} for row in record(recording)["results"])


def test_every_block_is_looked_at(recording: Path) -> None:
    answer = replay(recording, "--device", "simulated", "--verify")
    assert answer.exit_code == 0
    assert answer.stdout.splitlines()[-1] == APART
    assert "a device with memory is needed" in replay(recording, "--verify").stdout


def test_a_snapshot_is_replayed(tmp_path: Path) -> None:
    def event(action: str, address: int, size: int) -> dict[str, Any]:
        return {"action": action, "addr": address, "size": size, "stream": 0}

    traces = [
        [
            event("segment_alloc", 1 << 30, 20 * MIB), event("alloc", 1 << 30, 3 * MIB),
            event("free_requested", 1 << 30, 3 * MIB), event("free_completed", 1 << 30, 3 * MIB),
        ]
    ]  # fmt: skip
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": traces}))
    answer = replay(path, "--check")
    assert answer.exit_code == 0
    assert answer.stdout.splitlines()[-1] == "1 of 1 requests and 1 of 1 segments as recorded"


def test_any_instance_is_replayed_by_its_lifetimes(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    write_problem(Problem([3 * MIB, 5 * MIB], [0, 1], [1, 2], name="two"), path)
    answer = replay(path, "--allocators", "pytorch-caching")
    assert answer.stdout.splitlines()[-1] == FROM_LIFETIMES
    assert record(path)["recorded"] is False
    assert "has no segments" in refused(path, "--check")


def test_blocks_known_only_by_frees_existed_before(tmp_path: Path) -> None:
    path = tmp_path / "frees.npz"
    names = np.array(["alloc", "free_requested", "free_completed"])
    np.savez(path, action=[1, 2], addr=[8, 8], size=[5 * MIB, 5 * MIB], names=names)
    assert record(path)["results"][0]["requested_peak"] == 5 * MIB


@pytest.mark.parametrize("sizes", [[], [0]])
def test_a_recording_without_requests_is_an_error(tmp_path: Path, sizes: list[int]) -> None:
    path = tmp_path / "none.npz"
    names = np.array(["alloc", "free_completed"])
    zeros = np.zeros(len(sizes), dtype=np.int64)
    np.savez(path, action=zeros, addr=zeros, size=np.array(sizes, dtype=np.int64), names=names)
    assert "none.npz: at least one request for memory is needed" in refused(path)


def test_each_refusal_is_one_line(recording: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.npz"
    wrong.write_text("no archive")
    assert "no known format recognises this file" in refused(wrong)
    assert "cannot be read" in refused(tmp_path / "missing.npz")
    assert "no trace named" in refused()
    assert "did you mean 'pytorch-caching'" in refused(
        recording, "--allocators", "pytorch-cashing"
    )  # fmt: skip
    assert "has no parameter 'fit'" in refused(recording, "--allocators", "planned:fit=1")
    assert "the recorded allocator, pytorch-caching, is needed, found planned" in refused(
        recording, "--allocators", "planned", "--check"
    )
    assert "--device ledger is needed" in refused(recording, "--check", "--device", "simulated")
    assert "--capacity: a page of 2.000 MiB is needed" in refused(recording, "--capacity", "0")
    assert "24 GiB is written 24GiB" in refused(recording, "--capacity", "24")
    assert "a picture is written as" in refused(recording, "--plot", tmp_path / "x.nothing")
    assert "which this command reads" in refused(recording, "--plot", recording)


def test_a_failure_of_one_leaves_the_others(recording: Path) -> None:
    answer = replay(recording, "--allocators", "pytorch-caching,planned:planner=gredy")
    assert answer.exit_code == 2
    assert "planned:planner=gredy: no planner matches 'gredy'" in answer.stdout
    assert answer.stdout.splitlines()[2].startswith("*  pytorch-caching")


def test_ctrl_c_keeps_the_rows_that_are_whole(recording: Path, interrupted: str) -> None:
    answer = replay(recording, "--allocators", f"pytorch-caching,{interrupted},planned")
    assert answer.exit_code == 130
    assert answer.stdout.splitlines()[2].startswith("*  pytorch-caching")
    assert answer.stdout.splitlines()[-1] == f"interrupted; not run: {interrupted}, planned"
    nothing = replay(recording, "--allocators", interrupted)
    assert nothing.stdout == f"interrupted; not run: {interrupted}\n"
    checked = replay(recording, "--allocators", f"{interrupted},pytorch-caching", "--check")
    assert checked.exit_code == 0


def test_the_list_has_one_line_each() -> None:
    lines = replay("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(OURS)
    assert lines[-2].endswith("[planner=auto, time_limit=3.0, moves=all]")


def test_a_picture_of_what_was_reserved_over_time(tmp_path: Path) -> None:
    recording, picture = tmp_path / "random.npz", tmp_path / "out.svg"
    write_recorded_trace(random_trace(2), recording)
    answer = replay(recording, "--plot", picture)
    assert answer.exit_code == 0, answer.stderr
    assert picture.read_text().startswith("<?xml")


def test_without_the_package_that_draws_nothing_runs(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(**_chosen: str) -> list[Any]:
        return []

    monkeypatch.setattr("importlib.metadata.entry_points", none)
    assert "no installed package draws it" in refused(recording, "--plot", tmp_path / "x.png")


def test_a_picture_is_of_the_kind_that_is_asked_for() -> None:
    assert isinstance(find_plot("memory-over-time", OnlinePlot), OnlinePlot)
    with pytest.raises(Exception, match="a OnlinePlot is needed"):
        find_plot("layout", OnlinePlot)


def test_nothing_else_is_on_standard_output(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(standard_output, "write", written.append)
    assert replay(recording, "--json").stdout == ""
    json.loads("".join(written))


def test_one_error_of_all_allocators_is_said_once() -> None:
    rows = [OnlineRow(label, None, reason) for label, reason in zip("abc", "xyx", strict=True)]
    requests = requests_of_problem(Problem([1], [0], [1]))
    run = OnlineRun(requests, OnlineTerms(), tuple(rows))
    assert online_notes(run)[-2:] == ["a, c: x", "b: y"]


def captures(tmp_path: Path, **changed: Any) -> Path:
    """Write a run of three captures into two pools, each of which frees what it requests."""
    sizes = [MIB, 15 * MIB, MIB, 18 * MIB, 12 * MIB, MIB, 15 * MIB]
    ends = [14, 4, 14, 7, 8, 14, 13]
    columns = {"pool": [0, 1, 0, 2, 2, 0, 1], "address": range(1, 8)} | changed
    trace = AllocationTrace(14, sizes, [0, 2, 4, 5, 6, 9, 11], ends, ends, **columns)
    path = tmp_path / "captures.npz"
    write_recorded_trace(trace, path)
    return path


def test_captured_graphs_are_put_into_other_pools(tmp_path: Path) -> None:
    path = captures(tmp_path)
    held = []
    for pools in ("one", "recorded", "each"):
        answer = replay(path, "--allocators", "pytorch-caching", "--pools", pools, "--json")
        held.append(json.loads(answer.stdout)["results"][0]["reserved_peak"] // MIB)
    # Segments are of whole 2 MiB, 4 MiB for the common pool. One pool has 16 and 18 MiB; of two
    # pools the second has 18 and 12; a third one for the last capture has 16.
    assert held == [4 + 16 + 18, 4 + 16 + 30, 4 + 16 + 30 + 16]


def test_pools_that_cannot_be_arranged_say_why(tmp_path: Path, recording: Path) -> None:
    assert (
        "needs requests in private pools, found none" in replay(recording, "--pools", "one").stderr
    )
    path = captures(tmp_path)
    assert "--pools recorded is needed" in replay(path, "--check", "--pools", "each").stderr
