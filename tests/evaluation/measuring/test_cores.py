"""A core of its own is nobody else's, in this process or in another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from evaluation.measuring.cores import a_core_of_its_own

TAKE = """
import os
from evaluation.measuring.cores import a_core_of_its_own
with a_core_of_its_own():
    print("here", flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def _locks_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_within_there_is_one_core_and_afterwards_all_again() -> None:
    granted = os.sched_getaffinity(0)
    with a_core_of_its_own() as core:
        assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == granted


def test_a_child_forked_meanwhile_keeps_no_core(monkeypatch: pytest.MonkeyPatch) -> None:
    granted = {min(os.sched_getaffinity(0))}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: granted)
    with a_core_of_its_own():
        child = os.fork()
        if not child:
            signal.pause()
    try:
        with a_core_of_its_own() as core:
            assert {core} == granted
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_after_an_error_all_cores_are_granted_again() -> None:
    granted = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), a_core_of_its_own():
        _ = 1 / 0
    assert os.sched_getaffinity(0) == granted


def test_a_core_that_another_program_holds_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    core = min(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {core})
    before = {"preexec_fn": lambda: os.sched_setaffinity(0, {core})}
    holder = subprocess.Popen(
        [sys.executable, "-c", TAKE],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **before,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "here\n"
    taken = threading.Event()

    def take() -> None:
        with a_core_of_its_own():
            taken.set()

    waiting = threading.Thread(target=take)
    waiting.start()
    assert not taken.wait(0.1)
    # The system opens the lock of a program that dies.
    holder.kill()
    holder.communicate()
    waiting.join()
    assert taken.is_set()
