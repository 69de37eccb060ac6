"""What a page was measured on."""

from __future__ import annotations

import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path


def measured_now() -> str:
    """Return the date of today and what this machine is."""
    return f"{date.today()}; {environment()}"


def environment() -> str:
    """Return one line that says on what a table was measured."""
    cores = len(os.sched_getaffinity(0))
    packages = ", ".join(f"{name} {version(name)}" for name in ("gapless", "numpy"))
    on = "one core" if cores == 1 else f"{cores} cores"
    return f"{processor()}, {on}; Python {platform.python_version()}, {packages}"


def processor() -> str:
    """Return the name of the processor, as the system tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
