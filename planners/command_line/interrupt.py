"""Ctrl-C, and what else ends a run in order: it is interrupted, and what there is is kept."""

from __future__ import annotations

import signal
import sys
from importlib.machinery import ExtensionFileLoader
from types import FrameType, TracebackType

from planners.command_line import standard_output
from planners.command_line.starting import ENDING_SIGNALS, ending_line, exit_status_of

# A program that takes two interrupts and still runs does not mean to end.
PATIENCE_SIGNALS = 3

_LOADS_COMPILED_CODE = (
    ExtensionFileLoader.create_module.__code__, ExtensionFileLoader.exec_module.__code__,
)  # fmt: skip


class Interrupt:
    """Remembers that Ctrl-C came, while it still interrupts what runs.

    A planner may catch ``KeyboardInterrupt`` and answer with its best plan; whoever started it
    learns here that no other shall follow. SIGTERM and SIGHUP are taken as Ctrl-C is, so that
    children are ended and unfinished files removed. The second signal interrupts as the first
    does, and the third ends the process. Entered within another, it is that other one.
    """

    _entered: Interrupt | None = None

    def __init__(self) -> None:
        self.number: int | None = None
        self._count = 0
        self._before: dict[signal.Signals, object] = {}

    @property
    def came(self) -> bool:
        """Whether to stop."""
        return self.number is not None

    @property
    def exit_status(self) -> int:
        """Of a process that was interrupted."""
        return exit_status_of(self.number or signal.SIGINT)

    @property
    def line(self) -> str:
        """What is said where a run was interrupted."""
        return ending_line(self.number or signal.SIGINT)

    def __enter__(self) -> Interrupt:
        if Interrupt._entered is not None:
            return Interrupt._entered
        Interrupt._entered = self
        for number in ENDING_SIGNALS:
            before = signal.getsignal(number)
            # A shell's background job and ``nohup`` have them ignored, and mean it.
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
        """Whether one came to the program that runs, so that whatever fails may fail for that."""
        return cls._entered is not None and cls._entered.came

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self.number is None:
            self.number = number
        if self._count >= PATIENCE_SIGNALS:
            standard_output.leave_at_once(self.exit_status)
        _raise_interrupt(frame)


def _raise_interrupt(frame: FrameType | None) -> None:
    """Raise ``KeyboardInterrupt``, or, where compiled code is being imported, right after that.

    Much of it ends the process where Python code that it calls raises.
    """
    loading: FrameType | None = None
    while frame is not None:
        loading = frame if frame.f_code in _LOADS_COMPILED_CODE else loading
        frame = frame.f_back
    if loading is None:
        raise KeyboardInterrupt

    def profile(current: FrameType, event: str, _value: object) -> None:
        if current is loading and event == "return":
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(profile)
