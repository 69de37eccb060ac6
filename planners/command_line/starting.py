"""What a program of ours does while it imports: it ends by one line and its exit status.

This module imports nothing that takes time, for NumPy alone takes longer to import than a user
takes to press Ctrl-C. :mod:`planners.command_line.ending` does the same once the command line runs.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from types import FrameType, TracebackType

EXIT_ERROR = 2

# What ends a run in order: Ctrl-C, ``kill``, a terminal that is closed.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def exit_status_of(number: int) -> int:
    """Return the exit status of a process that a signal ended, as shells have it."""
    return 128 + number


def ending_line(number: int) -> str:
    """Return what is said where a signal ended a run."""
    by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
    return f"interrupted{by}"


def broken_import(error: ImportError) -> str:
    """Return the line for an import that failed: what is missing, and what installs it."""
    # Imported here because nearly every import succeeds.
    import re
    from importlib.metadata import PackageNotFoundError, requires

    if error.name == "planners._core":
        from planners.missing_core import missing_core

        return str(missing_core(error))
    missing = (error.name or "").partition(".")[0]
    with contextlib.suppress(PackageNotFoundError):
        for requirement in requires("gapless") or []:
            package = re.match(r"[\w.-]+", requirement)
            if package and package[0] == missing:
                from planners.errors import install_command

                extra = re.search(r"extra == ['\"]([\w-]+)", requirement)
                return f"{error}; install with: {install_command(extra[1] if extra else '')}"
    return str(error)


def start() -> None:
    """Let signals and missing packages end this process with one line, while it is imported.

    A program calls it before it imports what takes long. An import has nothing to keep, so the
    process ends at once; compiled code in an import may abort where a handler raises.
    """
    sys.excepthook = _complain
    atexit.register(_ignore_signals)  # first, and therefore called last
    for number in ENDING_SIGNALS:
        # A shell's background job and ``nohup`` have them ignored, and mean it.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)


def _ignore_signals() -> None:
    # The interpreter is being taken down, and would give them back what they do by default.
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _leave(number: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):  # nobody to tell
        os.write(2, f"{ending_line(number)}\n".encode())
    os._exit(exit_status_of(number))


def _complain(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(error, ImportError):
        sys.__excepthook__(kind, error, trace)
        return
    if sys.stderr is not None:
        print(f"error: {' '.join(broken_import(error).split())}", file=sys.stderr, flush=True)
    os._exit(EXIT_ERROR)
