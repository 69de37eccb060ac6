"""One piece of work at a time, beside the program."""

from __future__ import annotations

import atexit
import ctypes
import weakref
from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")

# A program that ends waits so long for a planner that does not stop at once.
_GRACE_SECONDS = 30


class PlanningThread(Generic[T]):
    """Runs one function at a time in a thread, and ends it with the program."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._outcome: T | None = None
        self._error: BaseException | None = None
        self._is_interrupted = False
        # Compiled code may not run on while the interpreter goes.
        atexit.register(_stop, weakref.ref(self))

    @property
    def is_busy(self) -> bool:
        """Whether something was started whose outcome was not taken."""
        return self._thread is not None

    def start(self, work: Callable[[], T]) -> None:
        """Run a function beside the program; the outcome of the one before has to be taken."""
        assert self._thread is None
        self._is_interrupted = False
        self._thread = Thread(target=self._run, args=(work,), name="gapless-planning", daemon=True)
        self._thread.start()

    def take(self, *, wait: bool = False) -> T | None:
        """Return what came out, or raise what was raised; None as long as nothing was."""
        if self._thread is None or (self._thread.is_alive() and not wait):
            return None
        self._thread.join()
        outcome, error = self._outcome, self._error
        self._thread = self._outcome = self._error = None
        if error is not None:
            raise error
        return outcome

    def wait(self) -> None:
        """Return when nothing runs; the outcome is still to be taken."""
        if self._thread is not None:
            self._thread.join()

    def interrupt(self) -> None:
        """End the work as Ctrl-C would, soon."""
        thread = self._thread
        if thread is None or not thread.is_alive() or self._is_interrupted:
            return
        self._is_interrupted = True
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt)
        )

    def stop(self) -> None:
        """End the work and wait for it."""
        self.interrupt()
        if self._thread is not None:
            self._thread.join(_GRACE_SECONDS)

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._outcome = work()
        except BaseException as error:  # whoever takes the outcome raises it
            self._error = error


def _stop(reference: weakref.ref[PlanningThread[T]]) -> None:
    thread = reference()
    if thread is not None:
        thread.stop()
