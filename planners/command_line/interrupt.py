"""Ctrl-C, SIGTERM and SIGHUP: they interrupt a run, which keeps its results so far."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from types import FrameType, TracebackType

from planners.command_line import standard_output
from planners.command_line.starting import ENDING_SIGNALS, ending_line, exit_status_of

# The signal of this number ends the process: a program that survives two may never end itself.
PATIENCE_SIGNALS = 3


class Interrupt:
    """Remembers that Ctrl-C came; Ctrl-C still interrupts the running code.

    A planner may catch ``KeyboardInterrupt`` and answer with its best plan; its caller learns here
    to start no other planner. SIGTERM and SIGHUP act as Ctrl-C, so that children are ended and
    unfinished files removed. The second signal interrupts as the first does, and the third ends
    the process. An ``Interrupt`` entered within another one returns that other one.
    """

    _entered: Interrupt | None = None

    def __init__(self) -> None:
        self.number: int | None = None
        self._count = 0
        self._before: dict[signal.Signals, object] = {}

    @property
    def came(self) -> bool:
        """True if an interrupt came."""
        return self.number is not None

    @property
    def exit_status(self) -> int:
        """The exit status of the interrupted process."""
        return exit_status_of(self.number or signal.SIGINT)

    @property
    def line(self) -> str:
        """The line to print after an interrupted run."""
        return ending_line(self.number or signal.SIGINT)

    def __enter__(self) -> Interrupt:
        if Interrupt._entered is not None:
            return Interrupt._entered
        Interrupt._entered = self
        for number in ENDING_SIGNALS:
            before = signal.getsignal(number)
            # A shell's background job and ``nohup`` ignore these signals on purpose.
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
        Interrupt._entered = None

    @classmethod
    def has_come(cls) -> bool:
        """Return True if an interrupt came to the running program; it may cause any failure."""
        return cls._entered is not None and cls._entered.came

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self.number is None:
            self.number = number
        if self._count >= PATIENCE_SIGNALS:
            standard_output.leave_at_once(self.exit_status)
        raise KeyboardInterrupt


def signals_wait() -> ExitStack:
    """Delay signals until the returned stack is closed.

    The mask holds for this thread and its children. Any other thread may receive a signal, and
    Python then runs the handler in the main thread: there the handlers are delayed as well.
    """
    with ExitStack() as undo:
        came: list[int] = []
        undo.callback(lambda: list(map(signal.raise_signal, came)))
        if threading.current_thread() is threading.main_thread():
            for number in ENDING_SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    undo.callback(signal.signal, number, handler)
                    signal.signal(number, lambda number, _frame: came.append(number))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        undo.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        return undo.pop_all()
