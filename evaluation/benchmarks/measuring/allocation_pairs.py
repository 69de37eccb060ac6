"""What it costs Python to take memory of a GPU and to give it back."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection

from gpu_runtime.training.run_specification import Allocator
from gpu_runtime.training.worker_processes import allocator_environment
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError
from planners.third_party.child_process import tied_to_this_process

PAIR_BYTES = 1 << 20
# In a turn.
PAIRS = 10_000
TURNS = 40
# In each there is a fresh process a case, since where a process happens to lie has a part in it.
ROUNDS = 3
# Turns before those that count; the plan is in force from the fourth step on.
WARM_UP = 6

HEADINGS = ("who serves the pair", "best us", "median us", "worst us", "median to native")


@dataclass(frozen=True)
class PairCase:
    """Who serves the pairs of a process."""

    name: str
    allocator: Allocator
    # Whether the loop is the body of a step, so that the plan serves every pair.
    in_step: bool


CASES = (
    PairCase("native", Allocator.DEFAULT, in_step=False),
    PairCase("native, expandable segments", Allocator.EXPANDABLE, in_step=False),
    PairCase("planned, inside a step", Allocator.PLANNED, in_step=True),
    PairCase("planned, outside of steps", Allocator.PLANNED, in_step=False),
)

# Takes one turn; returns the seconds of a pair.
Turn = Callable[[], float]
OpenTurns = Callable[[PairCase], AbstractContextManager[Turn]]


def pair_rows(open_turns: OpenTurns | None = None) -> list[list[str]]:
    """Return a row a case, with what :data:`HEADINGS` says; the allocators take turns.

    Note: why turns. On a shared machine the speed of a core halves for a second and comes back. The
    cases are compared turn by turn, so that all of them meet with that alike.
    """
    seconds: dict[PairCase, list[float]] = {case: [] for case in CASES}
    for round_number in range(ROUNDS):
        show_progress(f"pairs, round {round_number + 1} of {ROUNDS}")
        with ExitStack() as stack:
            turns = {
                case: stack.enter_context((open_turns or turns_in_a_process)(case))
                for case in CASES
            }
            for _ in range(TURNS):
                for case, turn in turns.items():
                    seconds[case].append(turn())
    return [_row(case, seconds[case], seconds[CASES[0]]) for case in CASES]


def _row(case: PairCase, seconds: list[float], native: list[float]) -> list[str]:
    spread = (min(seconds), statistics.median(seconds), max(seconds))
    ratio = statistics.median(own / its for own, its in zip(seconds, native, strict=True))
    return [case.name, *(f"{value * 1e6:.3f}" for value in spread), f"{ratio:.3f}x"]


@contextmanager
def turns_in_this_process(
    case: PairCase, device: str = "cuda", pairs: int = PAIRS
) -> Iterator[Turn]:
    """Take and give back one tensor over and over; all is warmed up before the first turn."""
    # Imported here because it is optional.
    import torch

    from gpu_runtime.training.allocator_probe import open_probe, require_device

    require_device(device)
    memory = open_probe(case.allocator, device)
    taken = 0

    def turn() -> float:
        nonlocal taken
        taken += 1
        with memory.step() if case.in_step else nullcontext():
            begun = time.perf_counter()
            for _ in range(pairs):
                torch.empty(PAIR_BYTES, dtype=torch.uint8, device=device)
            return (time.perf_counter() - begun) / pairs

    for _ in range(WARM_UP):
        turn()
    memory.reset_peaks()
    taken = 0
    yield turn
    plan = memory.plan()
    if case.in_step and plan is not None and plan.planned_requests < pairs * taken:
        raise GaplessError(
            f"{case.name}: the plan was to serve {pairs * taken} requests, "
            f"and served {plan.planned_requests}"
        )


@contextmanager
def turns_in_a_process(case: PairCase, device: str = "cuda") -> Iterator[Turn]:
    """Take the turns of :func:`turns_in_this_process` in a fresh process, pinned to one core."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_answer_turns, args=(theirs, case, device, tied_to_this_process()), daemon=True
    )
    process.start()
    theirs.close()

    def answer(*, goes_on: bool) -> float:
        # One that has died is found by the answer that does not come.
        with suppress(BrokenPipeError):
            ours.send(goes_on)
        return _answer(ours, case)

    try:
        _answer(ours, case)
        yield partial(answer, goes_on=True)
        answer(goes_on=False)
    finally:
        # This ends a process that waits for its next turn.
        ours.close()
        process.join()


def _answer(connection: Connection, case: PairCase) -> float:
    try:
        answer: float | GaplessError = connection.recv()
    except (EOFError, ConnectionResetError):
        raise GaplessError(f"{case.name}: the process that measures pairs died") from None
    if isinstance(answer, GaplessError):
        raise answer
    return answer


def _answer_turns(
    connection: Connection, case: PairCase, device: str, end_with_parent: Callable[[], None]
) -> None:
    """Answer when ready, after each turn, and at the end."""
    end_with_parent()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    # PyTorch, which reads it, is not imported before.
    environment = allocator_environment(case.allocator, os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        with turns_in_this_process(case, device) as turn:
            connection.send(0.0)
            while connection.recv():
                connection.send(turn())
        connection.send(0.0)
    except GaplessError as error:
        connection.send(error)
    except EOFError:
        # Nobody waits any more.
        return
