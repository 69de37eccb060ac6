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
    """What a call returned last, and what its repetitions cost."""

    # What the last repetition returned.
    value: Value
    seconds: float
    worst_seconds: float


def measure(call: Callable[[], Value], repetitions: int) -> Measured[Value]:
    """Run a call several times."""
    seconds = []
    for _ in range(repetitions):
        begun = time.process_time()
        value = call()
        seconds.append(time.process_time() - begun)
    return Measured(value, statistics.median(seconds), max(seconds))
