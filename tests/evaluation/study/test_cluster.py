"""A study on a cluster: a real scheduler, workers as processes, one of which is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from evaluation.study.records_file import read_records
from planners.third_party.child_process import start

pytestmark = pytest.mark.slow


class Cluster(NamedTuple):
    address: str
    scheduler: subprocess.Popen[str]
    workers: list[subprocess.Popen[str]]


@contextmanager
def program(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program that is ended with the test."""
    process = start(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which the study's files are not seen."""
    return tmp_path_factory.mktemp("elsewhere")


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A scheduler and two workers of one thread each, without anybody who starts them again."""
    file = folder / "scheduler.json"
    with ExitStack() as stack:
        scheduler = stack.enter_context(
            program(
                folder, sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0",
                "--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file),
            )
        )  # fmt: skip
        assert scheduler.stdout is not None
        address = next(line.split()[-1] for line in scheduler.stdout if "Scheduler at:" in line)
        workers = [
            stack.enter_context(
                program(
                    folder, sys.executable, "-m", "distributed.cli.dask_worker", address,
                    "--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", str(number),
                )
            )
            for number in range(2)
        ]  # fmt: skip
        yield Cluster(address, scheduler, workers)


def run_until(folder: Path, there: Cluster, kill: subprocess.Popen[str]) -> tuple[int, str]:
    """Run the study there, kill a process of the cluster after three records, and wait."""
    path = folder / "results" / "tiny.jsonl"
    command = [sys.executable, "-m", "evaluation.study", "run", "tiny.toml"]
    with program(folder, *command, "--scheduler", there.address) as runner:
        while not (path.exists() and path.read_text().count("\n") >= 3):
            assert runner.poll() is None, runner.communicate()
            try:
                runner.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
        os.kill(kill.pid, signal.SIGKILL)
        said, _ = runner.communicate()
        return runner.returncode, said


@pytest.fixture
def slow_study(study_folder: Path) -> Path:
    text = (study_folder / "tiny.toml").read_text()
    (study_folder / "tiny.toml").write_text(text.replace('"waits"', '"waits:seconds=0.5"'))
    return study_folder


def test_every_result_arrives_once_though_a_worker_is_killed(
    slow_study: Path, elsewhere: Path
) -> None:
    with cluster(elsewhere) as there:
        code, said = run_until(slow_study, there, there.workers[0])
    assert code == 0, said
    assert "tiny: 12 of 12 runs, 0 failed: results/tiny.jsonl" in said
    runs = [record.run for record in read_records(slow_study / "results" / "tiny.jsonl")]
    assert len(runs) == len(set(runs)) == 12


def test_a_scheduler_that_goes_away_ends_the_study_in_order(
    slow_study: Path, elsewhere: Path
) -> None:
    with cluster(elsewhere) as there:
        code, said = run_until(slow_study, there, there.scheduler)
    assert code == 2
    assert said.splitlines() == [
        "results/tiny.jsonl keeps what has ended, and the same command goes on from there",
        "error: the scheduler has gone, and what it was at is not recorded",
    ]
    assert 3 <= len(list(read_records(slow_study / "results" / "tiny.jsonl"))) < 12


def test_a_scheduler_that_is_not_there_is_one_line(study_folder: Path) -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "evaluation.study",
            "run",
            "tiny.toml",
            "--scheduler",
            "tcp://[::1]:9",
        ],
        cwd=study_folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("error: --scheduler: an address such as tcp://host:8786 that answers")
