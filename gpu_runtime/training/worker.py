"""``python -m gpu_runtime.training.worker``: a job on standard input, its answer as one line.

An allocator is chosen once in the life of a process, so each has processes of its own.
"""

from __future__ import annotations

import sys

from gpu_runtime.allocator.pytorch_allocator import OUT_OF_MEMORY
from gpu_runtime.training.run_specification import Purpose, RunSpecification
from gpu_runtime.training.worker_result import Answer, Failure, write_result
from instances.extract.models.required_packages import require_packages
from planners.command_line import standard_output, starting
from planners.errors import GaplessError


def answer_of(job: RunSpecification) -> Answer:
    """Do a job, and answer whatever happens."""
    try:
        require_packages()
        # Imported here because they need PyTorch.
        from gpu_runtime.training.allocator_probe import open_probe, require_device
        from gpu_runtime.training.check_run import UndeterminedError, run_check
        from gpu_runtime.training.timed_run import run_timed

        require_device(job.device)
    except GaplessError as error:
        return Failure(_line(error), is_general=True)
    run = run_check if job.purpose is Purpose.CHECK else run_timed
    try:
        memory = open_probe(job.allocator, job.device, job.planner, job.time_limit)
        return run(job, memory)
    except UndeterminedError as error:
        return Failure(_line(error), undetermined=error.operator)
    except GaplessError as error:
        return Failure(_line(error))
    except Exception as error:
        # Whatever a model, a kernel or the allocator raises becomes the parent's one line.
        return Failure(f"{_kind(error)}: {_line(error)}")


def _kind(error: Exception) -> str:
    # Outside of steps ours comes as an error of no special type.
    is_memory = type(error).__name__ == "OutOfMemoryError" or str(error).startswith(OUT_OF_MEMORY)
    return "out of memory" if is_memory else type(error).__name__


def _line(error: Exception) -> str:
    """Return the first line of a message; PyTorch's go on with advice and stacks."""
    lines = str(error).strip().splitlines()
    return " ".join(lines[0].split()) if lines else "no message"


def main() -> None:
    """Read the job, do it, write the answer."""
    starting.give_back()
    job = RunSpecification.from_json(sys.stdin.readline())
    with standard_output.kept_for_the_answer():
        answer = answer_of(job)
    standard_output.write(write_result(answer) + "\n")


if __name__ == "__main__":
    main()
