"""Ctrl-C that ends a long run and keeps what there is."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType

from planners import standard_output
from planners.exit_status import EXIT_INTERRUPTED


def run_command_line(app: Callable[[], object]) -> None:
    """Run a command line, and end the process at once where Ctrl-C ended it.

    A search in compiled code that did not stop in time may still run in a thread, and taking the
    interpreter down around it would abort.

    Parameters
    ----------
    app
        Ends with ``SystemExit``.
    """
    try:
        app()
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            standard_output.leave_at_once(EXIT_INTERRUPTED)
        raise


class Interrupt:
    """Remembers that Ctrl-C came, while it still interrupts what runs.

    A planner may catch ``KeyboardInterrupt`` and answer with its best plan; whoever started it
    learns here that no other shall follow. A second Ctrl-C interrupts as if this were not here.
    """

    def __init__(self) -> None:
        self.came = False

    def __enter__(self) -> Interrupt:
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        self.came = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise KeyboardInterrupt
