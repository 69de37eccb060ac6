"""Runs a search in compiled code so that Ctrl-C can stop it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Answer = TypeVar("Answer")

# Seconds between two looks of the waiting thread, within which Ctrl-C is noticed. A guess.
POLL_SECONDS = 0.05


def run_interruptibly(
    search: Callable[[], Answer], stop: Callable[[], None], grace_seconds: float
) -> tuple[Answer | None, bool]:
    """Run a blocking search, and stop it on Ctrl-C; return its answer, and whether Ctrl-C came.

    If Ctrl-C came, an error of the search is its effect, and the search has no answer.

    Python handles a signal only between two byte codes of its main thread. So the search runs in a
    thread of its own, and the calling thread waits in short steps.
    """
    future: Future[Answer] = Future()

    def work() -> None:
        try:
            future.set_result(search())
        except Exception as error:  # raised again in the thread that waits
            future.set_exception(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    interrupted = False
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
    except KeyboardInterrupt:
        interrupted = True
        stop()
        thread.join(grace_seconds)
    if interrupted and (not future.done() or future.exception()):
        return None, True
    return future.result(), interrupted
