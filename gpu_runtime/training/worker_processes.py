"""Workers: runs, each in a process of its own with the environment of its allocator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import IO

from gpu_runtime.training.run_specification import Allocator, Purpose, RunSpecification
from gpu_runtime.training.worker_result import Failure, WorkerResult, read_result
from planners.third_party import child_process

COMMAND = (sys.executable, "-m", "gpu_runtime.training.worker")

# The older name and the newer one; PyTorch reads either.
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
EXPANDABLE = "expandable_segments:True"

# Of a matrix product, as PyTorch wants it for the same bits in every run.
CUBLAS_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
CUBLAS_WORKSPACE = ":4096:8"

SECONDS_TO_END = 5.0


def run_worker(specification: RunSpecification) -> WorkerResult:
    """Do a run in a fresh process, which Ctrl-C ends.

    A process that dies is a failure too, also after its result.
    """
    with (
        tempfile.TemporaryFile("w+", errors="replace") as complaints,
        # In a session of its own: Ctrl-C reaches the parent alone, which ends the worker. A parent
        # that is killed takes it along; memory of a GPU would stay taken.
        child_process.start(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=worker_environment(specification, os.environ),
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            output, _ = process.communicate(specification.to_json() + "\n")
        except BaseException:
            _end(process)
            raise
        return _result(output, process.returncode, complaints)


def worker_environment(
    specification: RunSpecification, inherited: Mapping[str, str]
) -> dict[str, str]:
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

    Ours takes the default mode, which it replaces.
    """
    kept = {name: value for name, value in inherited.items() if name not in ALLOCATOR_VARIABLES}
    if allocator is Allocator.EXPANDABLE:
        kept |= dict.fromkeys(ALLOCATOR_VARIABLES, EXPANDABLE)
    return kept


def _result(output: str, code: int, complaints: IO[str]) -> WorkerResult:
    result = None
    with suppress(ValueError, TypeError, IndexError):
        result = read_result(output.splitlines()[-1])
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
