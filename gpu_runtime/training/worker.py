"""``python -m gpu_runtime.training.worker MODULE``: reads a run, writes one line with its result.

A process can choose its allocator once, so each run has processes of its own. The worker imports
its packages and the module of the program before it reads the run, while another process is
measured. Before each turn the worker writes a line, and reads one that lets it begin.
"""

from __future__ import annotations

import sys
from importlib import import_module

from gpu_runtime.training.run_processes import WAITS_FOR_ITS_TURN
from gpu_runtime.training.run_result import Answer, Failure, write_answer
from gpu_runtime.training.training_run import Purpose, TrainingRun
from instances.extract.models.required_packages import require_packages
from planners.errors import GaplessError
from planners.processes import standard_output
from planners.processes.interrupt import leave_at_once


def answer_to(line: str) -> Answer:
    """Return the result of the run that a line describes; every error becomes a `Failure`."""
    try:
        require_packages()
        # Imported here because they need PyTorch.
        import torch

        from gpu_runtime.training.allocator_probe import open_probe, require_device
        from gpu_runtime.training.determinism import UndeterminedError
        from gpu_runtime.training.program_run import run_program

        run = TrainingRun.from_json(line)
        require_device(run.device)
    except GaplessError as error:
        return Failure(_line(error), is_general=True)
    try:
        if run.device == "cuda":
            torch.cuda.set_device(run.rank)
            if run.memory is not None:
                total = torch.cuda.mem_get_info()[1]
                torch.cuda.set_per_process_memory_fraction(run.memory / total)
        probe = open_probe(
            run.allocator, run.device, run.planner, run.time_limit, run.rank, run.planning
        )
        if run.purpose is Purpose.CHECK:
            return run_program(run, probe)
        return run_program(run, probe, wait_for_turn)
    except UndeterminedError as error:
        return Failure(_line(error), undetermined=error.operator)
    except Exception as error:
        return failure_of(error)


def wait_for_turn() -> None:
    """Tell the parent that this process waits, and wait for a line that lets it go on."""
    standard_output.write_before_the_answer(WAITS_FOR_ITS_TURN)
    if not sys.stdin.readline():
        raise EOFError("the parent process, which gives the turns, is gone")


def failure_of(error: Exception) -> Failure:
    """Return an error of a model, a kernel or the allocator as one line for the parent."""
    if isinstance(error, GaplessError):
        return Failure(_line(error))
    kind = type(error).__name__
    return Failure(f"{'out of memory' if kind == 'OutOfMemoryError' else kind}: {_line(error)}")


def _line(error: Exception) -> str:
    """Return the first line of a message; PyTorch's errors go on with advice and stacks."""
    lines = str(error).strip().splitlines()
    return " ".join(lines[0].split()) if lines else "no message"


def _answer() -> Answer:
    try:
        require_packages()
        for module in ("gpu_runtime.training.program_run", *sys.argv[1:]):
            import_module(module)
    except GaplessError as error:
        return Failure(_line(error), is_general=True)
    except ImportError as error:
        return failure_of(error)
    return answer_to(sys.stdin.readline())


def main() -> None:
    """Import the packages, read the run, carry it out, and write the answer."""
    with standard_output.kept_for_the_answer():
        answer = _answer()
    standard_output.write(write_answer(answer) + "\n")
    # After an error, threads of a library may wait forever, so the process does not join them.
    if isinstance(answer, Failure):
        leave_at_once(0)


if __name__ == "__main__":
    main()
