"""``python -m evaluation.benchmarks.programs.worker``: a program on standard input, one line out.

An allocator is chosen once in the life of a process. What is imported before the line is read is
so while another process is measured. Where time is taken, a line is written before each turn, and
one is read that lets it begin.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

from evaluation.benchmarks.programs.program_result import (
    WAITS_FOR_ITS_TURN,
    ProgramAnswer,
    to_fields,
)
from evaluation.benchmarks.programs.program_specification import ProgramSpecification
from gpu_runtime.training.run_specification import Purpose
from gpu_runtime.training.worker import failure_of
from gpu_runtime.training.worker_result import Failure
from instances.extract.models.required_packages import require_packages
from planners.command_line import standard_output
from planners.errors import GaplessError


def answer_to(line: str) -> ProgramAnswer:
    """Run a program; whatever happens, there is an answer."""
    # Imported here because they need PyTorch.
    import torch

    from evaluation.benchmarks.programs.program_run import run_program
    from gpu_runtime.training.allocator_probe import open_probe, require_device

    try:
        specification = ProgramSpecification.from_json(line)
        require_device(specification.device)
        if specification.device == "cuda":
            torch.cuda.set_device(specification.rank)
        probe = open_probe(
            specification.allocator, specification.device, ordinal=specification.rank
        )
        if specification.purpose is Purpose.CHECK:
            return run_program(specification, probe)
        return run_program(specification, probe, wait_for_turn)
    except Exception as error:
        return failure_of(error)


def wait_for_turn() -> None:
    """Say that this process waits, until a line lets it go on."""
    standard_output.write_before_the_answer(WAITS_FOR_ITS_TURN)
    if not sys.stdin.readline():
        raise EOFError("nobody is there to say whose turn it is")


def import_what_takes_long() -> None:
    """Import what nearly every program needs; nothing of it asks for a device."""
    require_packages()
    import_module("evaluation.benchmarks.programs.program_run")
    import_module("evaluation.benchmarks.programs.language_models")


def main() -> None:
    """Import what takes long, read the specification, run the program, write the answer."""
    with standard_output.kept_for_the_answer():
        answer = _answer()
    standard_output.write(json.dumps(to_fields(answer)) + "\n")
    # After an error, threads of a library may wait for what never comes.
    if isinstance(answer, Failure):
        standard_output.leave_at_once(0)


def _answer() -> ProgramAnswer:
    try:
        import_what_takes_long()
    except GaplessError as error:
        return failure_of(error)
    return answer_to(sys.stdin.readline())


if __name__ == "__main__":
    main()
