"""Ctrl-C and other signals that end a run tidily: work is interrupted, and its results are kept."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import ExitStack, suppress
from types import FrameType, TracebackType
from typing import NoReturn

# Signals that end a run tidily: Ctrl-C, ``kill``, and a closed terminal.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# After so many signals the process ends at once: a program that still runs after two interrupts
# will not end by itself. A guess.
PATIENCE_SIGNALS = 3


def exit_status_of(number: int) -> int:
    """Return the exit status by which shells report a process that a signal ended."""
    return 128 + number


def ending_line(number: int) -> str:
    """Return the line that a program prints when a signal ended its run."""
    by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
    return f"interrupted{by}"


def leave_at_once(code: int) -> NoReturn:
    """Flush the output, and end the process without any other cleanup."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


class Interrupt:
    """Raises ``KeyboardInterrupt`` when Ctrl-C comes, and remembers that it came.

    A planner may catch ``KeyboardInterrupt`` and answer with its best plan. The caller of the
    planner then sees here that it must not start another one. SIGTERM and SIGHUP are handled like
    Ctrl-C, so that child processes are ended and unfinished files removed. The second signal
    interrupts like the first, and the third ends the process. An `Interrupt` that is entered within
    another gives the outer one.
    """

    _entered: Interrupt | None = None

    def __init__(self) -> None:
        self.number: int | None = None
        self._count = 0
        self._before: dict[signal.Signals, object] = {}
        self._report_ignored = sys.unraisablehook

    @property
    def came(self) -> bool:
        """Return True if a signal came, so that the run has to stop."""
        return self.number is not None

    @property
    def exit_status(self) -> int:
        """Exit status of a process that the first signal interrupted; of Ctrl-C if none came."""
        return exit_status_of(self.number or signal.SIGINT)

    @property
    def line(self) -> str:
        """The line that a program prints when its run was interrupted."""
        return ending_line(self.number or signal.SIGINT)

    def __enter__(self) -> Interrupt:
        if Interrupt._entered is not None:
            return Interrupt._entered
        Interrupt._entered = self
        self._report_ignored, sys.unraisablehook = sys.unraisablehook, self._ignore
        for number in ENDING_SIGNALS:
            before = signal.getsignal(number)
            # A shell's background job, or ``nohup``, starts the program with signals ignored. They
            # stay ignored.
            if before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if Interrupt._entered is not self:
            return
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]
        sys.unraisablehook = self._report_ignored
        Interrupt._entered = None

    @classmethod
    def has_come(cls) -> bool:
        """Return True if a signal came to this program, which may explain an error."""
        return cls._entered is not None and cls._entered.came

    @classmethod
    def listen_again(cls) -> None:
        """Hear signals again after code of a third party, which may have replaced the handlers."""
        if cls._entered is not None and threading.current_thread() is threading.main_thread():
            for number in cls._entered._before:
                signal.signal(number, cls._entered._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self.number is None:
            self.number = number
        if self._count >= PATIENCE_SIGNALS:
            leave_at_once(self.exit_status)
        raise KeyboardInterrupt

    def _ignore(self, ignored: sys.UnraisableHookArgs) -> None:
        # Python drops what leaves a destructor, Ctrl-C too. Loops then find it in `has_come`.
        if not (self.came and issubclass(ignored.exc_type, KeyboardInterrupt)):
            self._report_ignored(ignored)


def signals_wait() -> ExitStack:
    """Hold back the signals that end a run until the returned stack is closed.

    The signal mask applies to this thread and its child processes. The system may still deliver a
    signal to another thread, and Python then runs the handler in the main thread. So a call in the
    main thread also replaces the handlers by ones that only remember the signals.
    """
    with ExitStack() as undo:
        came = undo.enter_context(ExitStack())

        def remember(number: int, _frame: FrameType | None) -> None:
            came.callback(signal.raise_signal, number)

        if threading.current_thread() is threading.main_thread():
            for number in ENDING_SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    undo.callback(signal.signal, number, handler)
                    signal.signal(number, remember)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        undo.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        return undo.pop_all()
