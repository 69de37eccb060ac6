"""What it costs to take memory of a GPU and to give it back: the allocator alone, and in Python."""

from __future__ import annotations

import ctypes
import os
import shlex
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from gpu_runtime.training.run_specification import Allocator
from gpu_runtime.training.worker_processes import allocator_environment
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError
from planners.processes.child_process import tied_to_this_process

PAIR_BYTES = 1 << 20
# In a turn.
PAIRS = 10_000
TURNS = 40
# In each there is a fresh process a case, since where a process happens to lie has a part in it.
ROUNDS = 3
# Turns before those that count; the plan is in force from the fourth step on.
WARM_UP = 6

HEADINGS = ("who serves the pair", "best us", "median us", "worst us", "median to native")


# Who asks: C++, which asks the allocator and does nothing else, or `torch.empty` in Python.
Loop = Literal["C++", "Python"]
LOOPS: tuple[Loop, ...] = ("C++", "Python")
SOURCE = Path(__file__).with_suffix(".cpp")


@dataclass(frozen=True)
class PairCase:
    """Who serves the pairs of a process, and who asks for them."""

    name: str
    allocator: Allocator
    # Whether the loop is the body of a step, so that the plan serves every pair.
    in_step: bool
    loop: Loop


CASES = tuple(
    PairCase(f"{loop}: {name}", allocator, in_step, loop)
    for loop in LOOPS
    for name, allocator, in_step in (
        ("native", Allocator.DEFAULT, False),
        ("native, expandable segments", Allocator.EXPANDABLE, False),
        ("planned, inside a step", Allocator.PLANNED, True),
        ("planned, outside of steps", Allocator.PLANNED, False),
    )
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
    # The first case of a loop is the native one.
    native = {case.loop: seconds[case] for case in reversed(CASES)}
    return [_row(case, seconds[case], native[case.loop]) for case in CASES]


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
    # What has no context yet has no allocator either.
    torch.empty(PAIR_BYTES, dtype=torch.uint8, device=device)
    loop = _loop_in_cpp(device) if case.loop == "C++" else partial(_loop_in_python, device)
    taken = 0

    def turn() -> float:
        nonlocal taken
        taken += 1
        with memory.step() if case.in_step else nullcontext():
            return loop(pairs)

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


def _loop_in_python(device: str, pairs: int) -> float:
    import torch

    begun = time.perf_counter()
    for _ in range(pairs):
        torch.empty(PAIR_BYTES, dtype=torch.uint8, device=device)
    return (time.perf_counter() - begun) / pairs


def _loop_in_cpp(device: str) -> Callable[[int], float]:
    # As c10::DeviceType has them.
    kinds = {"cpu": 0, "cuda": 1}
    with TemporaryDirectory(prefix="gapless-") as folder:
        ask = ctypes.CDLL(str(_compiled(Path(folder)))).seconds_of_a_pair
    ask.argtypes = (ctypes.c_int, ctypes.c_size_t, ctypes.c_long)
    ask.restype = ctypes.c_double
    return partial(ask, kinds[device], PAIR_BYTES)


def _compiled(folder: Path) -> Path:
    import torch

    package = Path(torch.__file__).parent
    made = folder / "allocation_pairs.so"
    command = [
        *shlex.split(os.environ.get("CXX") or "c++"),
        *("-std=c++20", "-O2", "-fPIC", "-shared", f"-I{package / 'include'}"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(str(SOURCE), "-o", str(made), f"-L{package / 'lib'}", "-lc10"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise GaplessError(f"{SOURCE.name} does not compile: {ended.stderr.strip()[-500:]}")
    return made


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
