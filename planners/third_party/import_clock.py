"""How long imports took, which is no time of what imports."""

from __future__ import annotations

import builtins
import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class ImportTime:
    """What imports took since a clock was started, in any thread."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextlib.contextmanager
def import_clock() -> Iterator[ImportTime]:
    """Measure the imports of the body: of a solver, of a plugin, of what NumPy loads when asked.

    Note: who runs first would pay for everybody. What a planner imports is not known before it
    runs, and to run it twice could do twice what it does besides.
    """
    spent, within, plain = ImportTime(), threading.local(), builtins.__import__

    def timed(*arguments: Any, **named: Any) -> Any:
        if getattr(within, "is_import", False):
            return plain(*arguments, **named)
        within.is_import = True
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            return plain(*arguments, **named)
        finally:
            within.is_import = False
            spent.seconds += time.perf_counter() - wall
            spent.cpu_seconds += time.process_time() - cpu

    builtins.__import__ = timed
    try:
        yield spent
    finally:
        if builtins.__import__ is timed:
            builtins.__import__ = plain
