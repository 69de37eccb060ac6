"""State that a process has only once, and that a third party's planner may leave changed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator

import numpy as np

SIGNALS = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, signal.SIGALRM,
    signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip


@contextlib.contextmanager
def kept_process_state() -> Iterator[None]:
    """Restore, at the end, the state of this process that the body changed.

    Note: the restored state. Standard streams, working directory, environment, umask, recursion
    limit, warning filters, NumPy's error state, both global random generators, hooks, and, in the
    main thread, handlers, mask and timers of signals. This restores state that a planner forgot to
    restore. It does not protect from hostile code; only a separate process does.
    """
    with contextlib.ExitStack() as undo:
        for put_back in _ways_back():
            undo.callback(put_back)
        undo.enter_context(warnings.catch_warnings())
        yield


def _ways_back() -> Iterator[Callable[[], object]]:
    """Save one piece of state after the other; yield a function that restores it."""
    yield _attributes(sys, "stdin", "stdout", "stderr", "excepthook", "unraisablehook")
    yield _attributes(warnings, "showwarning", "formatwarning")
    yield _attributes(threading, "excepthook")
    trace, profile = sys.gettrace(), sys.getprofile()
    yield lambda: sys.settrace(trace)
    yield lambda: sys.setprofile(profile)
    environment = dict(os.environ)
    yield lambda: _put_back_environment(environment)
    with contextlib.suppress(OSError):  # the working directory may have been removed
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        yield lambda: os.close(folder)
        yield lambda: os.fchdir(folder)
    mask = os.umask(0o077)
    os.umask(mask)
    yield lambda: os.umask(mask)
    limit = sys.getrecursionlimit()
    yield lambda: sys.setrecursionlimit(limit)
    errors, on_errors = np.geterr(), np.geterrcall()
    yield lambda: np.seterr(**errors)
    yield lambda: np.seterrcall(on_errors)
    # A generator of a module that is not imported yet has no state to restore.
    if "random" in sys.modules:
        import random

        numbers = random.getstate()
        yield lambda: random.setstate(numbers)
    if "numpy.random" in sys.modules:
        state = np.random.get_state()
        yield lambda: np.random.set_state(state)
    if threading.current_thread() is threading.main_thread():
        yield from _ways_back_of_signals()


def _ways_back_of_signals() -> Iterator[Callable[[], object]]:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    timer, _ = signal.getitimer(signal.ITIMER_REAL)

    def put_back() -> None:
        if not timer:  # a timer that was set before goes on by itself
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            # A handler that C code has set is not Python's to put back.
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    yield put_back


def _attributes(module: object, *names: str) -> Callable[[], object]:
    before = {name: getattr(module, name) for name in names}
    return lambda: vars(module).update(before)


def _put_back_environment(before: dict[str, str]) -> None:
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)
