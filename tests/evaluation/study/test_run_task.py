"""A run is a process of its own: whatever a planner does there becomes a record."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.study.kinds import carry_out
from evaluation.study.planned_runs import runs_of
from evaluation.study.record import Record, RunStatus
from evaluation.study.run_task import RunTask
from evaluation.study.runner import tasks_of
from evaluation.study.study import Study
from evaluation.study.study_file import read_study
from evaluation.study.study_instances import Folders

MIB = 1 << 20


def study_of(folder: Path, planners: str, *more: str) -> Study:
    lines = [
        'question = "How does it end?"',
        f"planners = {planners}",
        'plugins = ["misbehaving.py"]',
        "budget_seconds = 1",
        *more,
        "[[grid]]",
        '[[grid.instances]]\nfamily = "random-lifetimes"\nparameters = { tensors = 12 }',
    ]
    (folder / "endings.toml").write_text("\n".join(lines))
    return read_study(folder / "endings.toml")


def tasks(study: Study, folder: Path) -> list[RunTask]:
    return list(tasks_of(study, runs_of(study, Folders(folder))))


def record_of(study: Study, folder: Path) -> Record:
    [task] = tasks(study, folder)
    return Record.from_json(carry_out(task), "here")


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
def test_how_a_run_ends_is_recorded(
    study_folder: Path, planner: str, status: RunStatus, reason: str
) -> None:
    # What does not hang has all the time that a slow machine may take.
    seconds = 1.2 if status is RunStatus.TIMED_OUT else 600
    study = study_of(study_folder, f'["{planner}"]', f"seconds = {seconds}", 'memory = "256MiB"')
    record = record_of(study, study_folder)
    assert record.status is status
    assert reason in (record.reason or "")
    assert record.peak is None
    assert record.failed
    assert record.bounds["lifetime"] > 0


def test_what_a_planner_prints_is_not_taken_for_its_answer(
    study_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    record = record_of(study_of(study_folder, '["prints"]'), study_folder)
    assert record.status in (RunStatus.OPTIMAL, RunStatus.FEASIBLE)
    assert capfd.readouterr().out == ""


def test_a_record_says_what_was_run_what_it_answered_and_what_it_took(study_folder: Path) -> None:
    study = study_of(study_folder, '["greedy-size-best:chain_rule=exact"]', "seeds = [7]")
    record = record_of(study, study_folder)
    assert record.study == "endings"
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
    (study_folder / "misbehaving.py").write_text(
        "import planners\n"
        "from planners import Plan\n"
        '@planners.register("takes")\n'
        "def takes(problem, budget, mebibytes=0):\n"
        "    kept = bytearray(mebibytes << 20)\n"
        '    return planners.solve(problem, "naive")\n'
    )
    study = study_of(study_folder, '["takes:mebibytes=0", "takes:mebibytes=64"]')
    small, large = (
        Record.from_json(carry_out(task), "here").peak_resident_bytes or 0
        for task in tasks(study, study_folder)
    )
    assert 60 * MIB < large - small < 80 * MIB


def test_an_online_allocator_is_recorded_with_both_of_its_peaks(study_folder: Path) -> None:
    text = (study_folder / "tiny.toml").read_text()
    text = text.replace('planners = ["waits", "naive"]', 'online = ["pytorch-caching"]')
    (study_folder / "online.toml").write_text(text)
    study = read_study(study_folder / "online.toml")
    record = Record.from_json(carry_out(tasks(study, study_folder)[0]), "here")
    assert (record.kind, record.status) == ("online", RunStatus.FEASIBLE)
    assert record.peak is not None
    assert record.allocated is not None
    assert record.lower_bound is not None
    assert record.peak >= record.allocated >= record.lower_bound > 0
    assert record.certificate == "lifetime"
    assert record.statistics["rows"] == 16


def test_an_online_allocator_without_memory_says_where_it_ended(study_folder: Path) -> None:
    text = (study_folder / "tiny.toml").read_text()
    text = text.replace('planners = ["waits", "naive"]', 'online = ["pytorch-caching"]')
    text = text.partition("[[grid.instances]]")[0]
    text += '[[grid.instances]]\nnames = ["synthetic-tight-142"]\n'
    (study_folder / "online.toml").write_text(text)
    study = read_study(study_folder / "online.toml")
    record = Record.from_json(carry_out(tasks(study, study_folder)[0]), "here")
    assert record.status is RunStatus.NO_PLAN_FOUND
    assert "out of memory at row" in (record.reason or "")


def test_a_statistic_that_json_cannot_hold_is_text(study_folder: Path) -> None:
    (study_folder / "misbehaving.py").write_text(
        "import planners\n"
        "from planners.model.findings import Findings\n"
        '@planners.register("counts")\n'
        "def counts(problem, budget):\n"
        '    return Findings(planners.solve(problem, "naive"), statistics={"most": float("inf")})\n'
    )
    record = record_of(study_of(study_folder, '["counts"]'), study_folder)
    assert record.statistics == {"most": "inf"}


def test_the_instance_travels_whole(study_folder: Path) -> None:
    study = read_study(study_folder / "tiny.toml")
    [run, *_] = runs_of(study, Folders(study_folder))
    [task, *_] = tasks_of(study, [run])
    problem, _ = run.instance.content()
    there = task.instance.unpacked()
    assert there.size.tolist() == problem.size.tolist()
    assert (there.start.tolist(), there.end.tolist()) == (
        problem.start.tolist(),
        problem.end.tolist(),
    )
    assert there.name == run.instance.name


def test_a_planner_knows_no_bound_before_it_runs(study_folder: Path) -> None:
    (study_folder / "misbehaving.py").write_text(
        "import planners\n"
        "from planners.model.findings import Findings\n"
        '@planners.register("knows")\n'
        "def knows(problem, budget):\n"
        "    known = len(problem.known_bounds.quick)\n"
        '    return Findings(planners.solve(problem, "naive"), statistics={"known": known})\n'
    )
    study = study_of(study_folder, '["knows"]')
    [task] = tasks(study, study_folder)
    again = replace(task, repetition=1)
    for each in (task, again):
        assert Record.from_json(carry_out(each), "here").statistics == {"known": 0}


def test_a_timed_run_is_on_one_core_and_tells_of_the_whole_machine(study_folder: Path) -> None:
    (study_folder / "misbehaving.py").write_text(
        "import os, planners\n"
        "from planners.model.findings import Findings\n"
        '@planners.register("counts")\n'
        "def counts(problem, budget):\n"
        '    cores = {"cores": len(os.sched_getaffinity(0))}\n'
        '    return Findings(planners.solve(problem, "naive"), statistics=cores)\n'
    )
    study = study_of(study_folder, '["counts"]', "timed = true")
    record = record_of(study, study_folder)
    assert record.timed
    assert record.statistics == {"cores": 1}
    assert record.machine.cores == len(os.sched_getaffinity(0))


def test_a_search_tells_when_it_found_each_plan(study_folder: Path) -> None:
    (study_folder / "own.toml").write_text(
        'question = "?"\nplanners = ["auto"]\nnode_limit = 500\nseconds = 600\n[[grid]]\n'
        '[[grid.instances]]\nnames = ["synthetic-pinwheels-241"]\n'
    )
    record = record_of(read_study(study_folder / "own.toml"), study_folder)
    assert len(record.incumbents) > 1
    seconds, peaks = zip(*record.incumbents, strict=True)
    assert list(seconds) == sorted(seconds)
    assert list(peaks) == sorted(set(peaks), reverse=True)
    assert peaks[-1] == record.peak
    assert record.wall_seconds is not None
    assert 0 <= seconds[0] <= seconds[-1] <= record.wall_seconds


def test_a_plugin_that_tells_nonsense_of_its_search_is_invalid(study_folder: Path) -> None:
    (study_folder / "misbehaving.py").write_text(
        "import planners\n"
        "from planners.model.findings import Findings\n"
        '@planners.register("tells")\n'
        "def tells(problem, budget):\n"
        '    return Findings(planners.solve(problem, "naive"), incumbents=[(-1.0, 5)])\n'
    )
    record = record_of(study_of(study_folder, '["tells"]'), study_folder)
    assert record.status is RunStatus.INVALID
    assert "an incumbent has seconds from 0 on" in (record.reason or "")
