"""Ctrl-C that ends a long run and keeps what there is."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


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
