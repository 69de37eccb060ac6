"""What it costs Python to take memory of a GPU and to give it back."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import get_context

from evaluation.benchmarks.measure import progress
from gpu_runtime.training.children import allocator_environment
from gpu_runtime.training.job import Allocator
from planners.errors import GaplessError

PAIR_BYTES = 1 << 20
PAIRS = 10_000
REPETITIONS = 30
# Processes of a case. One may run at half the speed of the next on a shared machine, so that the
# cases take turns.
ROUNDS = 2
# The plan is in force from the fourth step on.
WARM_UP = 6

HEADINGS = ("who serves the pair", "best us", "median us", "worst us", "median to native")


@dataclass(frozen=True)
class PairCase:
    """Who serves the pairs of a process.

    Parameters
    ----------
    name
        For the table.
    allocator
        In force.
    in_step
        Whether the loop is the body of a step, so that the plan serves every pair.
    """

    name: str
    allocator: Allocator
    in_step: bool


CASES = (
    PairCase("native", Allocator.DEFAULT, in_step=False),
    PairCase("native, expandable segments", Allocator.EXPANDABLE, in_step=False),
    PairCase("planned, inside a step", Allocator.PLANNED, in_step=True),
    PairCase("planned, outside of steps", Allocator.PLANNED, in_step=False),
)

Measure = Callable[[PairCase], list[float]]


def pair_rows(measure: Measure | None = None) -> list[list[str]]:
    """Measure a pair under every allocator, each in a process of its own.

    Parameters
    ----------
    measure
        Returns the seconds of a pair, one a repetition; by default in a fresh process on the GPU.

    Returns
    -------
    list of list of str
        As many cells as :data:`HEADINGS`, a row a case.
    """
    seconds: dict[PairCase, list[float]] = {case: [] for case in CASES}
    for round_number in range(ROUNDS):
        for case in CASES:
            progress(f"pairs, {case.name}, {round_number + 1} of {ROUNDS}")
            seconds[case] += (measure or _in_a_process)(case)
    native = statistics.median(seconds[CASES[0]])
    return [_row(case, seconds[case], native) for case in CASES]


def _row(case: PairCase, seconds: list[float], native: float) -> list[str]:
    median = statistics.median(seconds)
    micros = [f"{value * 1e6:.3f}" for value in (min(seconds), median, max(seconds))]
    return [case.name, *micros, f"{median / native:.3f}x"]


def pair_seconds(
    case: PairCase, device: str = "cuda", pairs: int = PAIRS, repetitions: int = REPETITIONS
) -> list[float]:
    """Take and give back one tensor over and over.

    Parameters
    ----------
    case
        Who serves; its allocator is put in force in this process.
    device
        ``"cuda"``, or for tests ``"cpu"``.
    pairs
        In a repetition.
    repetitions
        How often the loop is timed, after it was warmed up.

    Returns
    -------
    list of float
        Seconds a pair, one a repetition.

    Raises
    ------
    GaplessError
        There is no CUDA device, or the plan did not serve what it should have.
    """
    # Imported here because it is optional.
    import torch

    from gpu_runtime.training.memory_side import open_memory, require_device

    require_device(device)
    memory = open_memory(case.allocator, device)

    def loop() -> float:
        begun = time.perf_counter()
        for _ in range(pairs):
            torch.empty(PAIR_BYTES, dtype=torch.uint8, device=device)
        return (time.perf_counter() - begun) / pairs

    seconds = []
    for repetition in range(WARM_UP + repetitions):
        if repetition == WARM_UP:
            memory.reset_peaks()
        with memory.step() if case.in_step else nullcontext():
            seconds.append(loop())
    plan = memory.plan()
    if case.in_step and plan is not None and plan.planned_requests < pairs * repetitions:
        raise GaplessError(
            f"{case.name}: the plan was to serve {pairs * repetitions} requests, "
            f"and served {plan.planned_requests}"
        )
    return seconds[WARM_UP:]


def _in_a_process(case: PairCase) -> list[float]:
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_with_its_environment, case).result()


def _with_its_environment(case: PairCase) -> list[float]:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    # PyTorch, which reads it, is not imported before.
    environment = allocator_environment(case.allocator, os.environ)
    os.environ.clear()
    os.environ.update(environment)
    return pair_seconds(case)
