"""Runs a search in compiled code so that Ctrl-C can stop it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")

# Seconds between two looks of the waiting thread, within which Ctrl-C is noticed. A guess.
POLL_SECONDS = 0.05


class _Call(Generic[Answer]):
    def __init__(self, search: Callable[[], Answer]) -> None:
        self._search = search
        self.answer: Answer | None = None
        self.error: Exception | None = None

    def __call__(self) -> None:
        try:
            self.answer = self._search()
        except Exception as error:  # raised again in the thread that waits
            self.error = error


def run_interruptibly(
    search: Callable[[], Answer], stop: Callable[[], None], grace_seconds: float
) -> tuple[Answer | None, bool]:
    """Run a blocking search, and stop it on Ctrl-C.

    Python handles a signal only between two byte codes of its main thread. So the search runs in a
    thread of its own, and the calling thread waits in short steps.
    """
    call = _Call(search)
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    interrupted = False
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
    except KeyboardInterrupt:
        interrupted = True
        stop()
        thread.join(grace_seconds)
    if call.error is not None:
        raise call.error
    return call.answer, interrupted
