"""The processes of a program's run, one for each GPU, started before they are asked."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from evaluation.benchmarks.programs.program_result import (
    WAITS_FOR_ITS_TURN,
    ProgramAnswer,
    of_all_ranks,
    read_answer,
)
from evaluation.benchmarks.programs.program_specification import ProgramSpecification
from gpu_runtime.training.worker_processes import Worker, waiting_worker, worker_environment
from gpu_runtime.training.worker_result import Failure

COMMAND = (sys.executable, "-m", "evaluation.benchmarks.programs.worker")
# No part of a run takes so long, a warm-up beside two others with kernels compiled included; one
# that hangs would take all the time there is.
LIMIT_SECONDS = 240.0

# Lets Inductor choose kernels without timing them, which chooses now these, now those: runs that
# are compared, in bits or in time, would not do the same, and they are warmed up beside each other.
INDUCTOR_VARIABLE = "TORCHINDUCTOR_DETERMINISTIC"
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"

# The line that lets a process go on.
GO_ON = "go on"


class WaitingProgram:
    """The processes of a run, which wait to begin, and for each of its turns."""

    def __init__(self, workers: Sequence[Worker], ranks: Sequence[ProgramSpecification]) -> None:
        self._workers = workers
        self._ranks = ranks

    def begin(self) -> None:
        """Let the processes run, to their first turn if they have any."""
        for worker, its in zip(self._workers, self._ranks, strict=True):
            worker.ask(its.to_json())

    def wait_for_pause(self) -> ProgramAnswer | None:
        """Return when every process waits for its turn; the answer of one that is done before."""
        for worker in self._workers:
            line = worker.line(LIMIT_SECONDS)
            if line is None:
                return Failure(f"the process was not done with its turn after {LIMIT_SECONDS:g} s")
            if line.strip() != WAITS_FOR_ITS_TURN:
                return worker.answer(read_answer, LIMIT_SECONDS, line)
        return None

    def go_on(self) -> None:
        """Let all processes have their turn."""
        for worker in self._workers:
            worker.ask(GO_ON)

    def answer(self) -> ProgramAnswer:
        """Wait for the end of all processes."""
        return of_all_ranks([worker.answer(read_answer, LIMIT_SECONDS) for worker in self._workers])


@contextmanager
def waiting_program(specification: ProgramSpecification) -> Iterator[WaitingProgram]:
    """Start the processes of a run, which import what takes long and then wait."""
    ranks = [replace(specification, rank=rank) for rank in range(specification.ranks)]
    meeting = {} if specification.ranks == 1 else _meeting_place()
    with ExitStack() as stack:
        workers = [
            stack.enter_context(waiting_worker(COMMAND, _environment(rank, meeting)))
            for rank in ranks
        ]
        yield WaitingProgram(workers, ranks)


def _environment(specification: ProgramSpecification, meeting: dict[str, str]) -> dict[str, str]:
    environment = worker_environment(specification, os.environ) | meeting
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
