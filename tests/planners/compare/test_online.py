"""Online allocators on the command line: apart from offset plans, and by default on recordings."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instances.formats.recorded_trace import write_recorded_trace
from instances.traces.allocation_trace import AllocationTrace
from planners.files.problem_file import write_problem
from planners.model.problem import Problem
from planners.online.online_report import FROM_LIFETIMES
from tests.planners.compare.conftest import compare

MIB = 1 << 20
QUICK = ("--planners", "naive")
OURS = ("pytorch-caching", "pytorch-expandable")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Return the file of three blocks at once: of 12, 4 and 18 MiB."""
    trace = AllocationTrace(
        6, [12 * MIB, 4 * MIB, 18 * MIB], [0, 1, 2], [3, 4, 5], [3, 4, 5], address=[1, 2, 3]
    )
    path = tmp_path / "run.npz"
    write_recorded_trace(trace, path)
    return path


def online(text: str) -> Any:
    (instance,) = json.loads(text)["instances"]
    return instance["online"]


def test_a_recording_has_all_of_them_in_a_table_of_their_own(recording: Path) -> None:
    plans, _, table = compare(recording, *QUICK).stdout.partition("\n\n")
    assert not any(name in plans for name in OURS)
    above, heading, *rows = table.splitlines()
    assert above == "online, run: 6 events, 3 requests, 1 stream"
    assert heading.split()[:2] == ["online", "allocator"]
    note = rows.pop()
    assert note.startswith("planned, stweaver: planned nothing")
    names = [row.removeprefix("*").split()[0] for row in rows]
    assert names == [*OURS, "gmlake", "vpmm", "planned", "stweaver"]
    # 34 MiB live, which whole pages of 2 MiB hold; a row that planned nothing has no star.
    starred = [name for name, row in zip(names, rows, strict=True) if row[0] == "*"]
    assert starred == ["gmlake", "vpmm"]


def test_json_has_question_and_answer(recording: Path) -> None:
    found = online(compare(recording, *QUICK, "--online", ",".join(OURS), "--json").stdout)
    assert {key: value for key, value in found.items() if key != "results"} == {
        "recorded": True, "events": 6, "requests": 3, "device": "ledger", "capacity": None,
        "left_out": [],
    }  # fmt: skip
    caching, expandable = found["results"]
    # 12 MiB, 20 MiB of which 4 are used, 18 MiB; and pages of 20 MiB.
    assert caching["device_calls"] == {"allocate_plain": 3}
    assert (caching["allocated_peak"], caching["reserved_peak"]) == (34 * MIB, 50 * MIB)
    assert (expandable["allocated_peak"], expandable["reserved_peak"]) == (34 * MIB, 40 * MIB)
    assert caching["efficiency"] == pytest.approx(34 / 50)
    assert caching["fragmentation"] == pytest.approx(16 / 50)
    assert (caching["stalls"], caching["out_of_memory_row"], caching["reason"]) == (0, None, "")


def test_csv_has_a_line_each(recording: Path) -> None:
    text = compare(recording, *QUICK, "--online", "pytorch-*", "--csv").stdout
    _, *rows = csv.DictReader(io.StringIO(text))
    assert [(row["planner"], row["status"], row["peak"]) for row in rows] == [
        ("pytorch-caching", "online", str(50 * MIB)),
        ("pytorch-expandable", "online", str(40 * MIB)),
    ]


@pytest.mark.parametrize("slicing", [("--iteration", "all", "--no-persistent"), ("--static",)])
def test_a_part_of_a_recording_has_none_by_default(
    recording: Path, slicing: tuple[str, ...]
) -> None:
    assert online(compare(recording, *QUICK, *slicing, "--json").stdout) is None
    asked = compare(recording, *QUICK, *slicing, "--online", "pytorch-caching", "--json")
    assert online(asked.stdout)["recorded"] is False


def test_nobody_is_named(recording: Path) -> None:
    assert online(compare(recording, *QUICK, "--online", "", "--json").stdout) is None


def test_an_instance_has_those_that_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    write_problem(Problem([3 * MIB, 5 * MIB], [0, 1], [1, 2], name="one"), path)
    assert online(compare(path, *QUICK, "--json").stdout) is None
    answer = compare(path, *QUICK, "--online", "pytorch-caching")
    assert answer.stdout.splitlines()[-1] == FROM_LIFETIMES
    (caching,) = online(
        compare(path, *QUICK, "--online", "pytorch-caching", "--json").stdout
    )["results"]  # fmt: skip
    assert (caching["allocated_peak"], caching["reserved_peak"]) == (5 * MIB, 20 * MIB)


def test_a_capacity_counts_for_them_too(recording: Path) -> None:
    given = (recording, *QUICK, "--online", "pytorch-caching", "--capacity", "32MiB")
    (caching,) = online(compare(*given, "--json").stdout)["results"]
    assert (caching["out_of_memory_row"], caching["reserved_peak"]) == (2, 32 * MIB)
    assert compare(*given).stdout.splitlines()[-1] == (
        "pytorch-caching: out of memory at row 2 of 6"
    )


def test_a_third_party_brings_its_own(recording: Path, plugin: Callable[[str], Path]) -> None:
    path = plugin(
        "from planners.model.online_result import OnlineResult\n"
        "@planners.register_online('mine')\n"
        "def mine(requests, terms, *, doubled: bool = False):\n"
        "    '''Reserve all of it.'''\n"
        "    total = int(requests.size.sum()) * (1 + doubled)\n"
        "    return OnlineResult(1, total, total, {'take': 7, 'synchronize': 2}, 0.5)\n"
        "@planners.register_online('broken')\n"
        "def broken(requests, terms):\n"
        "    return 5 // 0\n"
        "@planners.register_online('wrong')\n"
        "def wrong(requests, terms):\n"
        "    return 5\n"
    )
    names = "mine,mine:doubled=true,broken,wrong"
    answer = compare(recording, *QUICK, "--plugin", path, "--online", names, "--json")
    assert answer.exit_code == 1, answer.stderr
    mine, doubled, broken, wrong = online(answer.stdout)["results"]
    assert (mine["reserved_peak"], doubled["reserved_peak"]) == (34 * MIB, 68 * MIB)
    assert (mine["efficiency"], mine["stalls"]) == (1.0, 2)
    assert (mine["requested_peak"], mine["valid"]) == (34 * MIB, True)
    assert doubled["allocator"] == "mine:doubled=True"
    assert (broken["reserved_peak"], broken["reason"][:18]) == (None, "ZeroDivisionError:")
    assert wrong["reason"] == "an online allocator returns an OnlineResult, found int"
    assert (broken["valid"], wrong["valid"]) == (False, False)
    lines = compare(recording, *QUICK, "--online", names, "--csv").stdout
    assert [line.split(",")[2] for line in lines.splitlines()[-4:]] == [
        *["online"] * 2,
        *["invalid"] * 2,
    ]


def test_a_plugin_that_fails_registers_nothing(
    recording: Path, plugin: Callable[[str], Path]
) -> None:
    path = plugin(
        "@planners.register_online('half')\n"
        "def half(requests, terms):\n"
        "    return 1\n"
        "raise RuntimeError('late')\n"
    )
    assert "late" in compare(recording, "--plugin", path).stderr
    assert "no online allocator matches 'half'" in compare(recording, "--online", "half").stderr


def test_an_interrupt_keeps_whole_rows(recording: Path, plugin: Callable[[str], Path]) -> None:
    path = plugin(
        "@planners.register_online('stopped')\n"
        "def stopped(requests, terms):\n"
        "    raise KeyboardInterrupt\n"
    )
    names = "pytorch-caching,stopped,pytorch-expandable"
    answer = compare(recording, *QUICK, "--plugin", path, "--online", names)
    assert answer.exit_code == 130
    assert "pytorch-caching" in answer.stdout
    assert answer.stdout.splitlines()[-1] == "interrupted; not run: stopped, pytorch-expandable"
