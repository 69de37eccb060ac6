"""The processor seconds of a call, over several runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class Measured(Generic[Value]):
    """What a call returned last, and the median and the largest cost of its repetitions."""

    value: Value
    seconds: float
    worst_seconds: float


def measure(call: Callable[[], Value], repetitions: int) -> Measured[Value]:
    """Run a call several times, at least once.

    The first run is counted too: it pays for fresh memory, as a user's first run does, and the
    median forgives one outlier.
    """
    seconds = []
    for _ in range(repetitions):
        begun = time.process_time()
        value = call()
        seconds.append(time.process_time() - begun)
    return Measured(value, statistics.median(seconds), max(seconds))
