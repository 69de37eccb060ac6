"""Measure: processor seconds on one pinned core, the median over repetitions."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
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


def pin_to_one_core() -> None:
    """Keep this process on one of the cores it may use, so that nothing runs side by side."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def use_every_core() -> None:
    """Let this process and its children run on every core that the system grants them."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


def environment() -> str:
    """Return one line that says on what a table was measured."""
    cores = len(os.sched_getaffinity(0))
    packages = ", ".join(f"{name} {version(name)}" for name in ("gapless", "numpy"))
    on = "one core" if cores == 1 else f"{cores} cores"
    return f"{_processor()}, {on}; Python {platform.python_version()}, {packages}"


def progress(text: str) -> None:
    """Show what runs now on a terminal's standard error."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
