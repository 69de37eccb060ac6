"""The time of imports, which is no time of the code that imports."""

from __future__ import annotations

import builtins
import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class ImportTime:
    """The time that imports took since a clock was started, in all threads together."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


_import = builtins.__import__
_lock = threading.Lock()
_clocks: list[ImportTime] = []
_within = threading.local()


@contextlib.contextmanager
def import_clock() -> Iterator[ImportTime]:
    """Measure the imports of the body: of a solver, of a plugin, of NumPy's lazy modules.

    Without this clock the planner that runs first pays for the imports of all others. Nobody knows
    before a run which modules a planner imports, and a run for warming up may have side effects.
    """
    global _import
    clock = ImportTime()
    with _lock:
        if not _clocks:
            _import, builtins.__import__ = builtins.__import__, _timed
        _clocks.append(clock)
    try:
        yield clock
    finally:
        with _lock:
            _clocks.remove(clock)
            if not _clocks and builtins.__import__ is _timed:
                builtins.__import__ = _import


def _timed(*arguments: Any, **named: Any) -> Any:
    if getattr(_within, "is_import", False):
        return _import(*arguments, **named)
    _within.is_import = True
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        return _import(*arguments, **named)
    finally:
        _within.is_import = False
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        with _lock:
            for clock in _clocks:
                clock.seconds += wall
                clock.cpu_seconds += cpu
