"""The processes of a run, one for each rank, in the environment of its allocator."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from tempfile import TemporaryDirectory

import msgspec

from gpu_runtime.training.run_result import Answer, Failure, of_all_ranks, read_answer
from gpu_runtime.training.training_run import Allocator, Purpose, TrainingRun
from planners.processes.asked_process import AskedProcess, asked_process

COMMAND = (sys.executable, "-m", "gapless_siblings", "gpu_runtime.training.worker")

# PyTorch reads either name; the first is the older one.
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
EXPANDABLE = "expandable_segments:True"
# PyTorch needs this for the same bits from the same matrix product.
CUBLAS_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
CUBLAS_WORKSPACE = ":4096:8"
# Lets Inductor choose kernels without timing them. A choice by time differs from run to run, and
# with it the bits and the times of the runs that are compared.
INDUCTOR_VARIABLE = "TORCHINDUCTOR_DETERMINISTIC"
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
# Names the file through which processes of a run meet: a free port may be taken meanwhile.
MEETING_VARIABLE = "GAPLESS_MEETING"

# A process writes the first line when it waits for its turn; the second line lets it go on.
WAITS_FOR_ITS_TURN = "waits"
GO_ON = "go on"


class RunProcesses:
    """The processes of a run; they wait before they begin, and before each turn."""

    def __init__(self, processes: Sequence[AskedProcess], ranks: Sequence[TrainingRun]) -> None:
        self._processes = processes
        self._ranks = ranks

    def begin(self) -> None:
        """Let the processes run to their first turn, if they have any."""
        for process, its in zip(self._processes, self._ranks, strict=True):
            process.ask(its.to_json())

    def wait_for_pause(self) -> Answer | None:
        """Wait for every process to pause before its turn; return the answer of one that ends."""
        for process, its in zip(self._processes, self._ranks, strict=True):
            limit = its.limit_seconds
            line = process.line(limit)
            if line is None:
                return Failure(f"the process did not end its turn within {limit:g} s")
            if line.strip() != WAITS_FOR_ITS_TURN:
                return _answer_of(process, limit, line)
        return None

    def go_on(self) -> None:
        for process in self._processes:
            process.ask(GO_ON)

    def answer(self) -> Answer:
        pairs = zip(self._processes, self._ranks, strict=True)
        return of_all_ranks([_answer_of(process, its.limit_seconds) for process, its in pairs])


def _answer_of(process: AskedProcess, limit: float | None, already_read: str = "") -> Answer:
    last = process.end(limit, already_read)
    if last is None:
        return Failure(f"the process did not end within {limit:g} s")
    try:
        answer = read_answer(last.line)
    except msgspec.DecodeError:
        how = last.death or "exit code 0"
        return Failure(f"the process died without a result, {how}{last.complaint}")
    # A crash of the allocator at exit is a failure too, though the result was sent.
    if last.death and not isinstance(answer, Failure):
        return Failure(f"the process died after its result, {last.death}{last.complaint}")
    return answer


Start = Callable[[TrainingRun], AbstractContextManager[RunProcesses]]


@contextmanager
def waiting_run(run: TrainingRun) -> Iterator[RunProcesses]:
    """Start the processes of a run, which import their packages and then wait."""
    ranks = [msgspec.structs.replace(run, rank=rank) for rank in range(run.ranks)]
    command = [*COMMAND, run.entry.partition(":")[0]]
    environment = worker_environment(run, os.environ)
    with ExitStack() as stack:
        if run.ranks > 1:
            folder = stack.enter_context(TemporaryDirectory())
            environment[MEETING_VARIABLE] = f"file://{folder}/meeting"
        processes = [stack.enter_context(asked_process(command, environment)) for _ in ranks]
        yield RunProcesses(processes, ranks)


def answer_of(run: TrainingRun, start: Start = waiting_run) -> Answer:
    """Make a run in fresh processes, which Ctrl-C ends; its turns follow one another."""
    with start(run) as processes:
        processes.begin()
        for _ in range(1 + run.turns if run.purpose is Purpose.TIME else 0):
            answer = processes.wait_for_pause()
            if answer is not None:
                return answer
            processes.go_on()
        return processes.answer()


def worker_environment(run: TrainingRun, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a run's processes.

    The user's settings of allocators and matrix products are left out: they would make runs differ.
    """
    environment = allocator_environment(run.allocator, inherited)
    environment.pop(CUBLAS_VARIABLE, None)
    environment[INDUCTOR_VARIABLE] = "1"
    if run.purpose is Purpose.CHECK:
        environment[CUBLAS_VARIABLE] = CUBLAS_WORKSPACE
    if run.ranks == 1:
        # A trainer that sees two devices would use both.
        environment[VISIBLE_DEVICES] = inherited.get(VISIBLE_DEVICES, "0").partition(",")[0]
    return environment


def allocator_environment(allocator: Allocator, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that sets the mode of PyTorch's allocator, in place of the user's.

    Allocators of ours replace the default mode.
    """
    kept = {name: value for name, value in inherited.items() if name not in ALLOCATOR_VARIABLES}
    if allocator is Allocator.EXPANDABLE:
        kept |= dict.fromkeys(ALLOCATOR_VARIABLES, EXPANDABLE)
    return kept
