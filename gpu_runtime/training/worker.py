"""``python -m gpu_runtime.training.worker``: a run on standard input, its result as one line.

An allocator is chosen once in the life of a process, so each has processes of its own.
"""

from __future__ import annotations

import sys

from gpu_runtime.training.run_specification import Purpose, RunSpecification
from gpu_runtime.training.worker_result import Failure, WorkerResult, write_result
from instances.extract.models.required_packages import require_packages
from planners.command_line import standard_output
from planners.errors import GaplessError


def result_of(specification: RunSpecification) -> WorkerResult:
    """Do a run; whatever happens, there is a result."""
    try:
        require_packages()
        # Imported here because they need PyTorch.
        from gpu_runtime.training.allocator_probe import open_probe, require_device
        from gpu_runtime.training.check_run import UndeterminedError, run_check
        from gpu_runtime.training.timed_run import run_timed

        require_device(specification.device)
    except GaplessError as error:
        return Failure(_line(error), is_general=True)
    run = run_check if specification.purpose is Purpose.CHECK else run_timed
    try:
        probe = open_probe(
            specification.allocator,
            specification.device,
            specification.planner,
            specification.time_limit,
            # Few steps are compared, and all that are timed are to be the plan's.
            planning="between",
        )
        return run(specification, probe)
    except UndeterminedError as error:
        return Failure(_line(error), undetermined=error.operator)
    except Exception as error:
        return failure_of(error)


def failure_of(error: Exception) -> Failure:
    """Return whatever a model, a kernel or the allocator raises as the parent's one line."""
    if isinstance(error, GaplessError):
        return Failure(_line(error))
    return Failure(f"{_kind(error)}: {_line(error)}")


def _kind(error: Exception) -> str:
    kind = type(error).__name__
    return "out of memory" if kind == "OutOfMemoryError" else kind


def _line(error: Exception) -> str:
    """Return the first line of a message; PyTorch's go on with advice and stacks."""
    lines = str(error).strip().splitlines()
    return " ".join(lines[0].split()) if lines else "no message"


def main() -> None:
    """Read the specification, do the run, write the result."""
    specification = RunSpecification.from_json(sys.stdin.readline())
    with standard_output.kept_for_the_answer():
        result = result_of(specification)
    standard_output.write(write_result(result) + "\n")


if __name__ == "__main__":
    main()
