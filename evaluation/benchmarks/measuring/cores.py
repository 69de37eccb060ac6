"""The cores that measurements may use."""

from __future__ import annotations

import os


def pin_to_one_core() -> None:
    """Keep this process on one of the cores it may use, so that nothing runs side by side."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def use_every_core() -> None:
    """Let this process and its workers run on every core that the system grants them."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
