"""The processes of a program's run, one for each GPU, started before they are asked."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from evaluation.benchmarks.programs.program_result import (
    ProgramAnswer,
    of_all_ranks,
    read_answer,
)
from evaluation.benchmarks.programs.program_specification import ProgramSpecification
from gpu_runtime.training.run_specification import Purpose
from gpu_runtime.training.worker_processes import waiting_worker, worker_environment

COMMAND = (sys.executable, "-m", "evaluation.benchmarks.programs.worker")
# No run takes so long, kernels compiled included; one that hangs would take all the time there is.
LIMIT_SECONDS = 180.0

# Lets Inductor choose kernels without timing them, which chooses now these, now those.
INDUCTOR_VARIABLE = "TORCHINDUCTOR_DETERMINISTIC"
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"

# Asks the processes that wait, and waits for their answers.
Ask = Callable[[], ProgramAnswer]


def run_program_apart(specification: ProgramSpecification) -> ProgramAnswer:
    """Do a run in fresh processes."""
    with waiting_program(specification) as ask:
        return ask()


@contextmanager
def waiting_program(specification: ProgramSpecification) -> Iterator[Ask]:
    """Start the processes of a run, which import what takes long and then wait."""
    ranks = [replace(specification, rank=rank) for rank in range(specification.ranks)]
    meeting = {} if specification.ranks == 1 else _meeting_place()
    with ExitStack() as stack:
        workers = [
            stack.enter_context(waiting_worker(COMMAND, _environment(rank, meeting)))
            for rank in ranks
        ]

        def ask() -> ProgramAnswer:
            for worker, its in zip(workers, ranks, strict=True):
                worker.ask(its.to_json())
            return of_all_ranks([worker.answer(read_answer, LIMIT_SECONDS) for worker in workers])

        yield ask


def _environment(specification: ProgramSpecification, meeting: dict[str, str]) -> dict[str, str]:
    environment = worker_environment(specification, os.environ) | meeting
    if specification.purpose is Purpose.CHECK:
        environment[INDUCTOR_VARIABLE] = "1"
    if specification.ranks == 1:
        # A trainer that sees two devices uses both.
        environment[VISIBLE_DEVICES] = os.environ.get(VISIBLE_DEVICES, "0").partition(",")[0]
    return environment


def _meeting_place() -> dict[str, str]:
    """Return where processes find each other: a port that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
