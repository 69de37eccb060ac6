"""Measure a call in a fresh process of its own: processor seconds, and the memory it adds."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Generic, TypeVar

from evaluation.measuring.resident_memory import (
    give_back_free_memory,
    resident_peak,
    restart_peak,
)
from planners.errors import GaplessError
from planners.third_party.child_process import tied_to_this_process

State = TypeVar("State")
Value = TypeVar("Value")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class MeasuredCall(Generic[State, Value, Answer]):
    """Three functions, of which the second is measured; they travel to its process by pickle."""

    # Makes what the call starts from.
    prepare: Callable[[], State]
    call: Callable[[State], Value]
    # Turns what the call started from and what it returned into the answer.
    finish: Callable[[State, Value], Answer]


@dataclass(frozen=True)
class IsolatedRun(Generic[Answer]):
    """What a measured call answered in a process of its own, and what it took."""

    answer: Answer
    # Of the call, all threads together; processes that it starts do not count.
    cpu_seconds: float
    # Largest resident memory during the call, less what was resident before it.
    added_bytes: int


def run_isolated(measured: MeasuredCall[State, Value, Answer]) -> IsolatedRun[Answer]:
    """Run a call in a fresh process, which keeps to the cores that this one is pinned to.

    Note: why a fresh process. Memory that one run has taken and freed stays with its process, and
    the next run finds it there at no cost; only a process that has run nothing shows what a call
    needs. It is spawned, not forked: a fork would inherit such memory from its parent. What
    ``prepare`` left free goes back to the system before the call for the same reason.
    """
    with ProcessPoolExecutor(
        max_workers=1, mp_context=get_context("spawn"), initializer=tied_to_this_process()
    ) as pool:
        try:
            return pool.submit(_run, measured).result()
        except BrokenProcessPool:
            raise GaplessError(
                "a measured process died before it answered, perhaps for want of memory; free "
                "some, or leave the instance out"
            ) from None


def _run(measured: MeasuredCall[State, Value, Answer]) -> IsolatedRun[Answer]:
    state = measured.prepare()
    give_back_free_memory()
    before = restart_peak()
    begun = time.process_time()
    value = measured.call(state)
    cpu_seconds = time.process_time() - begun
    added_bytes = max(0, resident_peak() - before)
    return IsolatedRun(measured.finish(state, value), cpu_seconds, added_bytes)
