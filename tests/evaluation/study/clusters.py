"""A Dask cluster of real processes, and a study that is run on it until something happens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from planners.processes.child_process import start


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


@contextmanager
def cluster(
    folder: Path, workers: Sequence[Sequence[str]] = (("--nthreads", "1"), ("--nthreads", "1"))
) -> Iterator[Cluster]:
    """Start a scheduler and workers with these options, which nobody starts again."""
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
        begun = [
            stack.enter_context(
                program(
                    folder, sys.executable, "-m", "distributed.cli.dask_worker", address,
                    *options, "--no-nanny", "--no-dashboard", "--name", str(number),
                )
            )
            for number, options in enumerate(workers)
        ]  # fmt: skip
        yield Cluster(address, scheduler, begun)


@contextmanager
def runner_until(
    folder: Path, there: Cluster, records: int
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run the study ``tiny`` there, and yield once so many of its records are on the disk."""
    path = folder / "results" / "tiny.jsonl"
    command = [sys.executable, "-m", "evaluation.study", "run", "tiny.toml"]
    with program(folder, *command, "--scheduler", there.address) as runner:
        while not (path.exists() and path.read_text().count("\n") >= records):
            assert runner.poll() is None, runner.communicate()
            try:
                runner.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
        yield runner, path
