"""Recordings on the command line: slices, the reference row, the static part and its plan."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from instances.formats.recorded_trace import write_recorded_trace
from instances.traces.allocation_trace import AllocationTrace, Phase
from planners.dynamic.reusable_space import reusable_space
from planners.dynamic.static_part import static_part
from planners.files.formats import read_problem
from planners.files.plan_file import read_saved_plan
from planners.files.problem_file import write_problem
from planners.files.recording_slice import LAST, RecordingSlice
from planners.model.problem import Problem
from tests.planners.compare.conftest import compare

QUICK = ("--planners", "naive,greedy-size-first", "--online", "")
LAST_ITERATION = ("--iteration", "last")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Return the file of three iterations, in which the expert's block has another size each.

    event         0 | 1   2   3   4   5 | 6 ... 10 | 11 ... 15
    weight, 600   [------------------------------------------->
    expert            [-------)                    120, 130, 140 bytes
    act, 100              [-----------)
    grad, 80                      [---)
    """
    size, alloc, freed = [600], [0], [16]
    for iteration, begin in enumerate((1, 6, 11)):
        size += [120 + 10 * iteration, 100, 80]
        alloc += [begin, begin + 1, begin + 3]
        freed += [begin + 2, begin + 4, begin + 4]
    phases = [Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER]
    trace = AllocationTrace(
        16, size, alloc, freed, freed, address=[4096 * i for i in range(len(size))],
        mark_event=[begin + step for begin in (1, 6, 11) for step in (0, 2, 4)],
        mark_phase=phases * 3, mark_microbatch=[0] * 9,
        mark_iteration=[i for i in range(3) for _ in phases],
        segments=[(0, 0, 0, 700, 0), (2, 0, 0, 300, 0), (14, 1, 0, 300, 0)],
    )  # fmt: skip
    path = tmp_path / "run.npz"
    write_recorded_trace(trace, path)
    return path


def only_instance(text: str) -> Any:
    (instance,) = json.loads(text)["instances"]
    return instance


def test_the_reference_is_the_last_row_and_no_planner(recording: Path) -> None:
    lines = compare(recording, *QUICK).stdout.splitlines()
    assert [line.split()[:2] for line in lines[2:5]] == [
        ["*", "greedy-size-first"], ["naive", "feasible"], ["~", "PyTorch"],
    ]  # fmt: skip
    assert lines[4].split() == [
        "~", "PyTorch", "reserved", "-", "0.977", "KiB", "1,000", "19.048", "%", "19.048", "%", "-",
    ]  # fmt: skip
    assert lines[-1] == "~ no plan: bytes that PyTorch had reserved at the peak of the recorded run"


def test_json_and_csv_carry_the_reference(recording: Path) -> None:
    instance = only_instance(compare(recording, *QUICK, "--json").stdout)
    assert instance["reference"] == {
        "label": "PyTorch reserved", "reserved": 1000, "exact": True,
        "below_lifetime_bound": False,
        "gap_to_bound": pytest.approx(1000 / 840 - 1),
        "gap_to_best": pytest.approx(1000 / 840 - 1),
        "about": "bytes that PyTorch had reserved at the peak of the recorded run",
    }  # fmt: skip
    assert [row["planner"] for row in instance["results"]] == ["greedy-size-first", "naive"]
    rows = list(csv.DictReader(io.StringIO(compare(recording, *QUICK, "--csv").stdout)))
    assert [(row["planner"], row["status"], row["peak"], row["valid"]) for row in rows[-2:]] == [
        ("naive", "feasible", str(600 + 3 * 180 + 390), "true"),
        ("PyTorch reserved", "reference", "1000", ""),
    ]


def test_a_problem_without_a_recording_has_no_reference(small: Path) -> None:
    assert only_instance(compare(small, *QUICK, "--json").stdout)["reference"] is None
    assert "~" not in compare(small, *QUICK).stdout


def test_a_terminal_shows_the_reference_dim(recording: Path) -> None:
    from rich.console import Console

    from planners.compare.comparison import compare_planners
    from planners.compare.report import REFERENCE_STYLE, comparison_table
    from planners.model.budget import Budget
    from planners.registry import choose

    comparison = compare_planners(read_problem(recording), choose("naive"), Budget())
    table = comparison_table(comparison, comparison.rows).rich(120)
    assert [row.style for row in table.rows] == ["bold green", REFERENCE_STYLE]
    console = Console(width=120, record=True, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    assert "PyTorch reserved" in capture.get()


def late_recording(path: Path, reserved: int) -> Path:
    """Write a recording in which 50 bytes were in use already, and 59 are at the peak."""
    trace = AllocationTrace(
        4,
        [50, 9],
        [0, 1],
        [4, 3],
        [4, 3],
        address=[0, 512],
        before=[True, False],
        segments=[(0, 0, 0, reserved, 0)],
    )
    write_recorded_trace(trace, path)
    return path


def test_a_late_recording_makes_the_reference_a_bound(tmp_path: Path) -> None:
    lines = compare(late_recording(tmp_path / "late.npz", 118), *QUICK).stdout.splitlines()
    assert "PyTorch reserved, at least" in lines[4]
    assert "100.0 %" in lines[4]
    assert lines[-1].endswith("; bytes reserved before the recording are not known")


def test_less_reserved_than_in_use_says_that_the_recording_began_late(tmp_path: Path) -> None:
    path = late_recording(tmp_path / "late.npz", 20)
    lines = compare(path, *QUICK).stdout.splitlines()
    assert "PyTorch reserved, at least" in lines[4]
    assert "%" not in lines[4]
    assert lines[-1] == (
        "~ no plan: bytes that PyTorch had reserved at the peak of the recorded run; no gap, "
        "because this is below the lifetime bound: the recording began after memory had been "
        "reserved"
    )
    reference = only_instance(compare(path, *QUICK, "--json").stdout)["reference"]
    assert reference["below_lifetime_bound"] is True
    assert (reference["gap_to_bound"], reference["gap_to_best"]) == (None, None)
    *_, row = csv.DictReader(io.StringIO(compare(path, *QUICK, "--csv").stdout))
    assert (row["status"], row["peak"], row["seed"]) == ("reference", "20", "")
    assert (row["gap_to_bound"], row["gap_to_best"]) == ("", "")
    assert "the recording began after" in row["reason"]


def test_sizes_that_are_rounded_up_may_be_why_less_was_reserved(recording: Path) -> None:
    lines = compare(recording, *QUICK, "--round-to", "2MiB").stdout.splitlines()
    assert lines[-1].endswith("below the lifetime bound: sizes are rounded up here")
    late = late_recording(recording.with_name("late.npz"), 20)
    lines = compare(late, *QUICK, "--round-to", "2MiB").stdout.splitlines()
    assert lines[-1].endswith("had been reserved, or sizes are rounded up here")


@pytest.mark.parametrize(
    ("options", "tensors", "naive", "reserved"),
    [
        ((), 10, 1530, 1000),
        (LAST_ITERATION, 4, 920, 1000),
        (("--iteration", "0"), 4, 900, 1000),
        (("--iteration", "-2", "--no-persistent"), 3, 310, None),
        (("--no-persistent",), 9, 930, None),
        ((*LAST_ITERATION, "--round-to", "512"), 4, 1024 + 3 * 512, 1000),
        ((*LAST_ITERATION, "--static"), 3, 780, None),
    ],
)
def test_options_choose_what_is_planned(
    recording: Path, options: tuple[str, ...], tensors: int, naive: int,
    reserved: int | None,
) -> None:  # fmt: skip
    instance = only_instance(compare(recording, *QUICK, *options, "--json").stdout)
    assert (instance["tensors"], instance["naive"]) == (tensors, naive)
    assert (instance["reference"] or {}).get("reserved") == reserved


def test_dynamic_tensors_are_counted(recording: Path) -> None:
    first = compare(recording, *QUICK, *LAST_ITERATION).stdout.splitlines()[0]
    assert first.startswith("run: 4 tensors, 1 of them dynamic, 1 stream, 0 chains;")


@pytest.mark.parametrize(
    ("options", "idle"),
    [
        # Where the gradient is to lie.
        (("--static",), [[700, 780]]),
        # Where the plan of everything has the dynamic block itself.
        ((), [[600, 740]]),
    ],
)
def test_a_saved_plan_says_where_dynamic_tensors_may_lie(
    recording: Path, tmp_path: Path, options: tuple[str, ...],
    idle: list[list[int]],
) -> None:  # fmt: skip
    target = tmp_path / "plan.json"
    answer = compare(recording, *QUICK, *LAST_ITERATION, *options, "--save-plan", target)
    assert answer.exit_code == 0, answer.output
    whole = read_problem(recording, RecordingSlice(LAST))
    part = static_part(whole)
    saved = read_saved_plan(part.problem if options else whole, target)
    assert saved.result.plan is not None
    plan = saved.result.plan if options else part.plan_within(saved.result.plan)
    assert saved.reusable_space is not None
    assert saved.reusable_space.same_as(reusable_space(whole, plan))
    # Allocated when the weight is there, freed when the activation is there as well.
    assert saved.reusable_space.visits.tolist() == [[-1, 1, -1, 2]]
    assert saved.reusable_space.idle_intervals(0).tolist() == idle


def test_without_dynamic_tensors_a_plan_is_a_plan(recording: Path, tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    compare(recording, *QUICK, "--static", "--save-plan", target)
    assert read_saved_plan(read_problem(recording), target).reusable_space is None


def test_pairs_with_dynamic_tensors_are_planned_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "pairs.json"
    write_problem(Problem([4, 5], unsafe_pairs=[(0, 1)], dynamic=[True, False]), path)
    target = tmp_path / "plan.json"
    assert compare(path, *QUICK, "--save-plan", target).exit_code == 0
    assert json.loads(target.read_text())["version"] == 1
    answer = compare(path, *QUICK, "--static")
    assert answer.exit_code == 2
    assert answer.stderr.startswith("error: field dynamic: the static part is known where")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--iteration", "3"), "error: FILE: iteration 3: the trace has the iterations 0 to 2"),
        (("--iteration", "first"), "error: --iteration: 'all', 'last', or a whole number"),
        (("--round-to", "0"), "error: --round-to: sizes are multiples of 1 to 1099511627776 bytes"),
        (("--dynamic-modules", "*.experts.*"), "error: --dynamic-modules: dynamic requests"),
    ],
)
def test_refuses_parts_that_a_recording_lacks(
    recording: Path, options: tuple[str, ...], message: str
) -> None:
    answer = compare(recording, *QUICK, *options)
    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert answer.stderr.replace(str(recording), "FILE").startswith(message)


def test_an_instance_has_no_iterations(small: Path) -> None:
    answer = compare(small, *QUICK, "--iteration", "last")
    assert answer.exit_code == 2
    assert "--iteration: a recording is needed (recorded-trace" in answer.stderr
