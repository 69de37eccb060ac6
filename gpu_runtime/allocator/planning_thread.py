"""A thread that does one piece of work at a time while the program goes on."""

from __future__ import annotations

import atexit
import ctypes
import weakref
from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")

# At its end, a program waits at most so many seconds for its planner to stop. A guess.
_GRACE_SECONDS = 30


class Stopped(KeyboardInterrupt):
    """Ctrl-C for one thread.

    Python ends a program as if Ctrl-C had ended it if ``KeyboardInterrupt`` itself leaves code that
    ``exec`` runs, in any thread. An import runs such code for each dataclass.
    """


class PlanningThread(Generic[T]):
    """Runs one function at a time in a thread, and ends it with the program."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._outcome: T | None = None
        self._error: BaseException | None = None
        self._is_interrupted = False
        # Compiled code must not run while the interpreter shuts down.
        atexit.register(_stop, weakref.ref(self))

    @property
    def is_busy(self) -> bool:
        """Return True if work was started whose outcome has not been taken yet."""
        return self._thread is not None

    def start(self, work: Callable[[], T]) -> None:
        """Start a function in the thread; the outcome of the last one must have been taken."""
        assert self._thread is None
        self._is_interrupted = False
        self._thread = Thread(target=self._run, args=(work,), name="gapless-planning", daemon=True)
        self._thread.start()

    def take(self, *, wait: bool = False) -> T | None:
        """Return the outcome of the work, or raise its error; None if no work has ended."""
        if self._thread is None or (self._thread.is_alive() and not wait):
            return None
        self._thread.join()
        outcome, error = self._outcome, self._error
        self._thread = self._outcome = self._error = None
        if error is not None:
            raise error
        return outcome

    def wait(self) -> None:
        """Wait until the work has ended; its outcome can still be taken."""
        if self._thread is not None:
            self._thread.join()

    def interrupt(self) -> None:
        """Raise :class:`Stopped` in the thread, as Ctrl-C would; do not wait."""
        thread = self._thread
        if thread is None or not thread.is_alive() or self._is_interrupted:
            return
        self._is_interrupted = True
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Stopped)
        )

    def stop(self) -> None:
        """Interrupt the work, and wait at most `_GRACE_SECONDS` for its end."""
        self.interrupt()
        if self._thread is not None:
            self._thread.join(_GRACE_SECONDS)

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._outcome = work()
        except BaseException as error:  # take() raises it
            self._error = error


def _stop(reference: weakref.ref[PlanningThread[T]]) -> None:
    thread = reference()
    if thread is not None:
        thread.stop()
