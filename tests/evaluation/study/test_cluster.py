"""A study on a cluster: processes are killed, runs are timed, the runner is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from evaluation.study.records_file import read_records
from tests.evaluation.study.clusters import Cluster, cluster, program, runner_until
from tests.evaluation.study.conftest import RESUMES

pytestmark = pytest.mark.slow


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which the study's files are not seen."""
    return tmp_path_factory.mktemp("elsewhere")


def run_until(folder: Path, there: Cluster, kill: subprocess.Popen[str]) -> tuple[int, str]:
    """Run the study there, kill a process of the cluster after three records, and wait."""
    with runner_until(folder, there, 3) as (runner, _):
        os.kill(kill.pid, signal.SIGKILL)
        (folder / "gate").touch()
        said, _ = runner.communicate()
        return runner.returncode, said


def run_on(folder: Path, address: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "evaluation.study", "run", "tiny.toml"]
    with program(folder, *command, "--scheduler", address) as runner:
        said, _ = runner.communicate()
        return runner.returncode, said


def test_every_result_arrives_once_though_a_worker_is_killed(
    held_study: Path, elsewhere: Path
) -> None:
    with cluster(elsewhere) as there:
        code, said = run_until(held_study, there, there.workers[0])
    assert code == 0, said
    assert "tiny: 12 of 12 runs, 0 failed: results/tiny.jsonl" in said
    runs = [record.run for record in read_records(held_study / "results" / "tiny.jsonl")]
    assert len(runs) == len(set(runs)) == 12


def test_a_scheduler_that_goes_away_ends_the_study_in_order(
    held_study: Path, elsewhere: Path
) -> None:
    with cluster(elsewhere) as there:
        code, said = run_until(held_study, there, there.scheduler)
    assert code == 2
    assert said.splitlines() == [
        "executes misbehaving.py",
        RESUMES,
        "error: the scheduler is gone; its unfinished runs have no record",
    ]
    assert 3 <= len(list(read_records(held_study / "results" / "tiny.jsonl"))) < 12


def test_a_missing_scheduler_is_one_line(study_folder: Path) -> None:
    code, said = run_on(study_folder, "tcp://[::1]:9")
    assert code == 2
    last = said.splitlines()[-1]
    assert last.startswith("error: --scheduler: an address such as tcp://host:8786 that answers")


# ---- Times count ---------------------------------------------------------------------------------

# Says on which core it ran, and from when to when by the clock of the machine.
CLOCKED = '''
import os, time
import planners
from planners.model.findings import Findings

@planners.register("clocked")
def clocked(problem, budget):
    """Be at work for a while."""
    begun, cores = time.monotonic(), os.sched_getaffinity(0)
    while time.monotonic() < begun + 0.2:
        pass
    told = {"cores": len(cores), "core": min(cores), "begun": begun, "ended": time.monotonic()}
    return Findings(planners.solve(problem, "naive"), statistics=told)
'''


@pytest.fixture
def timed_study(study_folder: Path) -> Path:
    text = (study_folder / "tiny.toml").read_text().replace('["waits", "naive"]', '["clocked"]')
    (study_folder / "tiny.toml").write_text(f"timed = true\nrepetitions = 2\n{text}")
    (study_folder / "misbehaving.py").write_text(CLOCKED)
    return study_folder


@pytest.mark.parametrize(
    "workers",
    [[("--nthreads", "1")] * 3, [("--nthreads", "4")]],
    ids=["several workers", "a worker of several threads"],
)
def test_a_timed_run_has_a_core_of_its_own_however_many_a_machine_is_given(
    timed_study: Path, elsewhere: Path, workers: list[tuple[str, str]]
) -> None:
    with cluster(elsewhere, workers) as there:
        code, said = run_on(timed_study, there.address)
    assert code == 0, said
    records = list(read_records(timed_study / "results" / "tiny.jsonl"))
    assert len(records) == 12
    told = [record.statistics for record in records]
    assert {its["cores"] for its in told} == {1}
    assert {record.machine.cores for record in records} == {len(os.sched_getaffinity(0))}
    for core in {its["core"] for its in told}:
        spans = sorted((its["begun"], its["ended"]) for its in told if its["core"] == core)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_a_worker_on_an_unlike_machine_ends_a_timed_study(
    timed_study: Path, elsewhere: Path
) -> None:
    unlike = elsewhere / "unlike.py"
    unlike.write_text('import platform\nplatform.release = lambda: "of another machine"\n')
    workers = [("--nthreads", "1"), ("--nthreads", "1", "--preload", str(unlike))]
    with cluster(elsewhere, workers) as there:
        code, said = run_on(timed_study, there.address)
    assert code == 2
    assert "times of unlike machines do not compare: write to another file with -o" in said
    kept = list(read_records(timed_study / "results" / "tiny.jsonl"))
    assert len({record.machine.system for record in kept}) == 1
    assert 1 <= len(kept) < 12


# ---- The runner is interrupted -------------------------------------------------------------------


def within(folder: Path) -> set[int]:
    """Return the processes at work in a folder."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if Path(os.readlink(link)) == folder:
                found.add(int(link.parent.name))
        except OSError:  # it has ended, or is not ours
            continue
    return found


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "interrupted by SIGTERM")],
)
def test_interrupted_on_a_cluster_it_leaves_nothing_and_goes_on(
    held_study: Path, elsewhere: Path, number: int, code: int, line: str
) -> None:
    with cluster(elsewhere) as there:
        with runner_until(held_study, there, 2) as (runner, path):
            runner.send_signal(number)
            said, _ = runner.communicate()
        assert runner.returncode == code
        (held_study / "gate").touch()
        goes_on = RESUMES
        assert said.splitlines() == ["executes misbehaving.py", goes_on, line]
        assert path.read_text().endswith("\n")
        kept = path.read_text()
        assert 2 <= len(list(read_records(path))) < 12
        assert within(held_study) == set()
        # What workers were at ends by itself, and no process of a run stays.
        own = {there.scheduler.pid, *(worker.pid for worker in there.workers)}
        deadline = time.monotonic() + 60
        while within(elsewhere) - own and time.monotonic() < deadline:
            time.sleep(0.05)
        assert within(elsewhere) == own
        code, said = run_on(held_study, there.address)
    assert code == 0, said
    assert path.read_text().startswith(kept)
    runs = [record.run for record in read_records(path)]
    assert len(runs) == len(set(runs)) == 12
