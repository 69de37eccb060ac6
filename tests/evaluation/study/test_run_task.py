"""A run is a process of its own: whatever a planner does there becomes a record."""

from __future__ import annotations

import os
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.study.kinds import carry_out
from evaluation.study.planned_runs import runs_of
from evaluation.study.record import Record, RunStatus
from evaluation.study.study_file import read_study
from evaluation.study.study_instances import Folders
from planners import Memory, Problem, write_problem
from tests.evaluation.study.made_runs import made_records, tasks_in, written_study

MIB = 1 << 20
TWELVE = 'family = "random-lifetimes"\nparameters = { tensors = 12 }'
SETTINGS = 'plugins = ["misbehaving.py"]\nbudget_seconds = 1\nplanners = '
ONLINE = 'seconds = 30\nonline = ["pytorch-caching"]'


def record_of(folder: Path, planners: str, *more: str) -> Record:
    settings = "\n".join([f"{SETTINGS}{planners}", *more])
    [record] = made_records(folder, settings, TWELVE)
    return record


def write_plugin(folder: Path, name: str, body: str) -> None:
    """Write a plugin of one planner; ``naive`` in its body returns the naive plan."""
    (folder / "misbehaving.py").write_text(
        "import os, planners\n"
        "from planners.model.findings import Findings\n"
        f'@planners.register("{name}")\n'
        "def planner(problem, budget, mebibytes=0):\n"
        '    def naive(**more): return Findings(planners.solve(problem, "naive"), **more)\n'
        + textwrap.indent(body, "    ")
    )


@pytest.mark.parametrize(
    ("planner", "status", "reason"),
    [
        ("segfaults", RunStatus.CRASHED, "its process ended by signal SIGSEGV"),
        ("hangs", RunStatus.TIMED_OUT, "its process was killed after 1.2 s"),
        ("eats-memory", RunStatus.OUT_OF_MEMORY, "out of memory"),
        ("is-killed", RunStatus.OUT_OF_MEMORY, "SIGKILL, as the system does where memory is short"),
        ("exits", RunStatus.CRASHED, "its process ended with exit status 3"),
        ("overlaps", RunStatus.INVALID, "unsafe tensors share bytes"),
    ],
)
def test_each_ending_of_a_run_is_recorded(
    study_folder: Path, planner: str, status: RunStatus, reason: str
) -> None:
    # What does not hang has all the time that a slow machine may take.
    seconds = 1.2 if status is RunStatus.TIMED_OUT else 600
    record = record_of(study_folder, f'["{planner}"]', f"seconds = {seconds}", 'memory = "256MiB"')
    assert record.status is status
    assert reason in (record.reason or "")
    assert record.peak is None
    assert record.failed
    assert record.bounds["lifetime"] > 0


def test_output_of_a_planner_is_not_its_answer(
    study_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    record = record_of(study_folder, '["prints"]')
    assert record.status in (RunStatus.OPTIMAL, RunStatus.FEASIBLE)
    assert capfd.readouterr().out == ""


def test_a_record_says_what_was_run_what_it_answered_and_what_it_took(study_folder: Path) -> None:
    record = record_of(study_folder, '["greedy-size-best:chain_rule=exact"]', "seeds = [7]")
    assert record.study == "made"
    assert record.instance == "random-lifetimes:tensors=12:seed=0"
    assert record.family == "random-lifetimes"
    assert record.instance_digest.startswith("sha256:")
    assert (record.planner, record.parameters) == ("greedy-size-best", {"chain_rule": "exact"})
    assert (record.tensors, record.seed, record.budget_seconds) == (12, 7, 1.0)
    assert record.peak is not None
    assert record.lower_bound is not None
    assert record.peak >= record.lower_bound >= record.bounds["lifetime"]
    assert record.processor_seconds is not None
    assert record.wall_seconds is not None
    assert 0 <= record.processor_seconds < 1
    assert record.versions["gapless"]
    assert not record.timed


def test_the_memory_that_a_run_adds_is_its_own(study_folder: Path) -> None:
    write_plugin(study_folder, "takes", "kept = bytearray(mebibytes << 20)\nreturn naive()")
    planners = '["takes:mebibytes=0", "takes:mebibytes=64"]'
    records = made_records(study_folder, SETTINGS + planners, TWELVE)
    small, large = (record.peak_resident_bytes or 0 for record in records)
    assert 60 * MIB < large - small < 80 * MIB


def test_a_record_says_what_the_plan_pays(study_folder: Path) -> None:
    memories = [Memory("fast", 0, 8), Memory("slow", 64, 100)]
    problem = Problem(
        [4, 4, 9], [0, 2, 0], [2, 4, 4], memories=memories,
        places=[(0, 0, 0), (1, 0, 0), (2, 1, 7)], reuse_prices=[(0, 1, 3)],
    )  # fmt: skip
    write_problem(problem, study_folder / "priced.json")
    (record,) = made_records(study_folder, SETTINGS + '["auto"]', 'files = ["priced.json"]')
    assert (record.status, record.cost, record.peak) == (RunStatus.OPTIMAL, 7, 73)
    assert record.cost_bound == 7
    write_problem(
        Problem([4, 4], [0, 0], [2, 2], pinned={0: 0, 1: 2}), study_folder / "priced.json"
    )
    (record,) = made_records(study_folder, SETTINGS + '["auto"]', 'files = ["priced.json"]')
    assert (record.status, record.cost, record.cost_bound) == (RunStatus.INFEASIBLE, None, None)
    assert "pinned to the same bytes" in record.reason


def test_an_online_allocator_is_recorded_with_both_of_its_peaks(study_folder: Path) -> None:
    [record] = made_records(study_folder, ONLINE, TWELVE)
    assert (record.kind, record.status) == ("online", RunStatus.FEASIBLE)
    assert record.peak is not None
    assert record.allocated is not None
    assert record.lower_bound is not None
    assert record.peak >= record.allocated >= record.lower_bound > 0
    assert record.certificate == "lifetime"
    assert record.statistics["rows"] == 24


def test_an_online_allocator_without_memory_says_where_it_ended(study_folder: Path) -> None:
    [record] = made_records(study_folder, ONLINE, 'names = ["synthetic-tight-142"]')
    assert record.status is RunStatus.NO_PLAN_FOUND
    assert "out of memory at row" in (record.reason or "")


def test_a_statistic_that_json_cannot_hold_is_text(study_folder: Path) -> None:
    write_plugin(study_folder, "counts", 'return naive(statistics={"most": float("inf")})')
    record = record_of(study_folder, '["counts"]')
    assert record.statistics == {"most": "inf"}


def test_the_instance_travels_whole(study_folder: Path) -> None:
    study = read_study(study_folder / "tiny.toml")
    [run, *_] = runs_of(study, Folders(study_folder))
    [task, *_] = tasks_in(study)
    problem, _ = run.instance.content()
    there = task.instance.unpacked()
    assert there.size.tolist() == problem.size.tolist()
    assert (there.start.tolist(), there.end.tolist()) == (
        problem.start.tolist(),
        problem.end.tolist(),
    )
    assert there.name == run.instance.name


def test_a_planner_knows_no_bound_before_it_runs(study_folder: Path) -> None:
    known = "len(problem.known_bounds.quick)"
    write_plugin(study_folder, "knows", f'return naive(statistics={{"known": {known}}})')
    [task] = tasks_in(written_study(study_folder, f'{SETTINGS}["knows"]', TWELVE))
    again = replace(task, repetition=1)
    for each in (task, again):
        assert Record.from_json(carry_out(each), "here").statistics == {"known": 0}


def test_a_timed_run_is_on_one_core_and_tells_of_the_whole_machine(study_folder: Path) -> None:
    cores = '{"cores": len(os.sched_getaffinity(0))}'
    write_plugin(study_folder, "counts", f"return naive(statistics={cores})")
    record = record_of(study_folder, '["counts"]', "timed = true")
    assert record.timed
    assert record.statistics == {"cores": 1}
    assert record.machine.cores == len(os.sched_getaffinity(0))


def test_a_search_tells_when_it_found_each_plan(study_folder: Path) -> None:
    settings = 'planners = ["auto"]\nnode_limit = 500\nseconds = 600'
    [record] = made_records(study_folder, settings, 'names = ["synthetic-pinwheels-241"]')
    assert len(record.incumbents) > 1
    seconds, peaks = zip(*record.incumbents, strict=True)
    assert list(seconds) == sorted(seconds)
    assert list(peaks) == sorted(set(peaks), reverse=True)
    assert peaks[-1] == record.peak
    assert record.wall_seconds is not None
    assert 0 <= seconds[0] <= seconds[-1] <= record.wall_seconds


def test_a_plugin_that_tells_nonsense_of_its_search_is_invalid(study_folder: Path) -> None:
    write_plugin(study_folder, "tells", "return naive(incumbents=[(-1.0, 5)])")
    record = record_of(study_folder, '["tells"]')
    assert record.status is RunStatus.INVALID
    assert "an incumbent has seconds from 0 on" in (record.reason or "")
