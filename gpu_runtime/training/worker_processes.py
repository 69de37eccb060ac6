"""Workers: runs, each in a process of its own with the environment of its allocator."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Protocol, TypeVar

from gpu_runtime.training.run_specification import Allocator, Purpose, RunSpecification
from gpu_runtime.training.worker_result import Failure, WorkerResult, read_result
from planners.processes import child_process

COMMAND = (sys.executable, "-m", "gpu_runtime.training.worker")

# The older name and the newer one; PyTorch reads either.
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
EXPANDABLE = "expandable_segments:True"

# Of a matrix product, as PyTorch wants it for the same bits in every run.
CUBLAS_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
CUBLAS_WORKSPACE = ":4096:8"

SECONDS_TO_END = 5.0

# What a worker answers where it does not fail.
Answer = TypeVar("Answer")


class WorkerChoice(Protocol):
    """What decides in which environment a run is done."""

    @property
    def purpose(self) -> Purpose:
        """What the process is run for."""
        ...

    @property
    def allocator(self) -> Allocator:
        """Who serves its memory."""
        ...


@dataclass(frozen=True)
class Worker:
    """A process that waits for its question, so that it can be started before its turn."""

    process: subprocess.Popen[str]
    complaints: IO[str]

    def ask(self, question: str) -> None:
        """Send the one line that it waits for; whether it has died is seen by its answer."""
        with suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()

    def line(self, limit_seconds: float) -> str | None:
        """Return the next line, empty where the process has ended; none where none came in time.

        This is for a process that waits after each line: what it wrote beyond that would be lost.
        """
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], limit_seconds)
        return self.process.stdout.readline() if ready else None

    def answer(
        self,
        read: Callable[[str], Answer],
        limit_seconds: float | None = None,
        already_read: str = "",
    ) -> Answer | Failure:
        """Return what the last line says that it writes before it ends.

        A process that dies is a failure too, also after its answer, and one that goes on for longer
        than its limit.
        """
        try:
            output, _ = self.process.communicate(timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            return Failure(f"the process had not ended after {limit_seconds:g} s")
        return _result(already_read + output, self.process.returncode, self.complaints, read)


@contextmanager
def waiting_worker(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Worker]:
    """Start a process that is asked once; at the end of this context it has ended, or is made to.

    It also ends with the thread that started it.
    """
    with (
        tempfile.TemporaryFile("w+", errors="replace") as complaints,
        # In a session of its own: Ctrl-C reaches the parent alone, which ends the worker. A parent
        # that is killed takes it along; memory of a GPU would stay taken.
        child_process.start(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield Worker(process, complaints)
        finally:
            if process.poll() is None:
                _end(process)


def run_worker(specification: RunSpecification) -> WorkerResult:
    """Do a run in a fresh process, which Ctrl-C ends."""
    environment = worker_environment(specification, os.environ)
    with waiting_worker(COMMAND, environment) as worker:
        worker.ask(specification.to_json())
        return worker.answer(read_result)


def worker_environment(specification: WorkerChoice, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a worker.

    What the user has set for allocators and matrix products would make the runs compared unlike.
    """
    environment = allocator_environment(specification.allocator, inherited)
    environment.pop(CUBLAS_VARIABLE, None)
    if specification.purpose is Purpose.CHECK:
        environment[CUBLAS_VARIABLE] = CUBLAS_WORKSPACE
    return environment


def allocator_environment(allocator: Allocator, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that chooses the mode of PyTorch's allocator, not the user's.

    Ours take the default mode, which they replace.
    """
    kept = {name: value for name, value in inherited.items() if name not in ALLOCATOR_VARIABLES}
    if allocator is Allocator.EXPANDABLE:
        kept |= dict.fromkeys(ALLOCATOR_VARIABLES, EXPANDABLE)
    return kept


def _result(
    output: str, code: int, complaints: IO[str], read: Callable[[str], Answer]
) -> Answer | Failure:
    result: Answer | Failure | None = None
    with suppress(ValueError, TypeError, IndexError):
        result = read(output.splitlines()[-1])
    # An allocator has to be right at exit too, where the result is on its way already.
    if result is not None and (code == 0 or isinstance(result, Failure)):
        return result
    when = "without a result" if result is None else "after its result"
    complaints.seek(0)
    said = [line.strip() for line in complaints if line.strip()]
    last = f": {said[-1]}" if said else ""
    return Failure(f"the process died {when}, {_how(code)}{last}")


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
