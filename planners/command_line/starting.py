"""Ends a Gapless program that is still importing, with one line and an exit status.

This module imports only fast modules: the import of NumPy alone takes longer than a user takes to
press Ctrl-C. Once the command line runs, :mod:`planners.command_line.ending` ends the program.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from types import FrameType, TracebackType

from gapless_siblings import show
from planners.processes.interrupt import ENDING_SIGNALS, ending_line, exit_status_of

EXIT_INVALID_PLAN = 1
EXIT_ERROR = 2


def start() -> None:
    """Let signals and missing packages end this process with one line, while it imports modules.

    A program calls this function before its slow imports. There are no results to keep yet, so the
    process ends at once. The signal handler must not raise: compiled code that is being imported
    may abort on an exception.
    """
    show(ours=True)
    sys.excepthook = _complain
    atexit.register(_ignore_signals)  # registered first, so called last
    for number in ENDING_SIGNALS:
        # A shell's background job, or ``nohup``, starts the program with signals ignored. They
        # stay ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)


def _ignore_signals() -> None:
    # At its end the interpreter restores the defaults of signals with handlers, so that a late
    # signal would kill the process. Ignored signals stay ignored.
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _leave(number: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):  # standard error may be closed
        os.write(2, f"{ending_line(number)}\n".encode())
    os._exit(exit_status_of(number))


def _complain(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(error, ImportError):
        sys.__excepthook__(kind, error, trace)
        return
    # Imported only here, because nearly every start goes well and never comes here.
    from planners.missing_core import broken_import

    if sys.stderr is not None:
        print(f"error: {' '.join(broken_import(error).split())}", file=sys.stderr, flush=True)
    os._exit(EXIT_ERROR)
