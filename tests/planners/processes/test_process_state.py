"""What a planner leaves changed in the process is put back."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from planners.processes.process_state import kept_process_state


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


STATE: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "stdout": (lambda: sys.stdout, lambda: setattr(sys, "stdout", None)),
    "stderr": (lambda: sys.stderr, lambda: setattr(sys, "stderr", None)),
    "hook": (lambda: sys.excepthook, lambda: setattr(sys, "excepthook", print)),
    "thread hook": (
        lambda: threading.excepthook, lambda: setattr(threading, "excepthook", print),
    ),
    "folder": (os.getcwd, lambda: os.chdir("/")),
    "environment": (
        lambda: dict(os.environ), lambda: (os.environ.clear(), os.environ.update(A="b")),
    ),
    "umask": (current_umask, lambda: os.umask(0o123)),
    "recursion": (sys.getrecursionlimit, lambda: sys.setrecursionlimit(12345)),
    "filters": (lambda: list(warnings.filters), lambda: warnings.simplefilter("error")),
    "showwarning": (
        lambda: warnings.showwarning, lambda: setattr(warnings, "showwarning", print),
    ),
    "errors": (np.geterr, lambda: np.seterr(all="raise")),
    "random": (random.getstate, lambda: random.seed(1)),
    "numpy random": (lambda: repr(np.random.get_state()), lambda: np.random.seed(1)),
    "ctrl-c": (
        lambda: signal.getsignal(signal.SIGINT), lambda: signal.signal(signal.SIGINT, print),
    ),
    "sigterm": (
        lambda: signal.getsignal(signal.SIGTERM),
        lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    ),
    "mask": (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, []),
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]),
    ),
    "alarm": (lambda: signal.getitimer(signal.ITIMER_REAL)[0], lambda: signal.alarm(1000)),
    "tracing": (sys.getprofile, lambda: sys.setprofile(lambda *_: None)),
}  # fmt: skip


@pytest.mark.parametrize("name", STATE)
def test_is_put_back(name: str) -> None:
    state, change = STATE[name]
    before = state()
    with kept_process_state():
        change()
        changed = state()
    assert changed != before
    assert state() == before


def test_also_where_the_body_raises() -> None:
    def work() -> None:
        with kept_process_state():
            os.chdir("/")
            raise ValueError("now")

    before = Path.cwd()
    with pytest.raises(ValueError, match="now"):
        work()
    assert Path.cwd() == before


def test_a_folder_that_was_removed_and_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    reached = []

    def work() -> None:
        with kept_process_state():
            reached.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with kept_process_state():
        os.chdir(tmp_path)
    assert reached == [True]


def test_no_descriptor_is_left() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with kept_process_state():
            pass
    assert len(os.listdir("/proc/self/fd")) == before
