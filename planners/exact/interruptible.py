"""Let Ctrl-C through to a search that runs in compiled code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")

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

    Python sees a signal only between two byte codes of its main thread. So the search runs in a
    thread of its own, and this one waits in short steps.

    Parameters
    ----------
    search
        Blocks, without holding the GIL.
    stop
        Asks the search to end; called from the waiting thread.
    grace_seconds
        How long to wait for it then. A search that cannot be stopped is left behind in a daemon
        thread, which ends by its own time limit or with the process.

    Returns
    -------
    tuple
        The answer, None where the search was left behind; and whether Ctrl-C came.

    Raises
    ------
    Exception
        Whatever the search raised.
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
