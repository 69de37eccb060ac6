"""Calls in processes: a worker that dies fails its own call and no other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest

from evaluation.study.executors import LocalProcesses, WorkerDiedError
from planners.errors import InstanceError


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalProcesses]:
    executor = LocalProcesses(2)
    yield executor
    executor.shutdown(cancel_futures=True)


def die(number: int) -> None:
    os.kill(os.getpid(), number)


def leave(code: int) -> None:
    os._exit(code)


def wait_at(path: str) -> str:
    """Say that it is here, and wait for ever."""
    Path(path).write_text(str(os.getpid()))
    signal.pause()
    return "never"


def refuse(message: str) -> None:
    raise InstanceError(message)


def test_calls_end_with_their_answers_in_other_processes(executor: LocalProcesses) -> None:
    futures = [executor.submit(pow, base, exp=2) for base in range(10)]
    assert [future.result() for future in futures] == [base**2 for base in range(10)]
    assert executor.submit(os.getpid).result() != os.getpid()


def test_a_worker_that_dies_fails_its_own_call_and_is_replaced(executor: LocalProcesses) -> None:
    killed = executor.submit(die, signal.SIGKILL)
    left = executor.submit(leave, 3)
    others = [executor.submit(pow, base, 3) for base in range(6)]
    with pytest.raises(WorkerDiedError, match="ended by signal SIGKILL"):
        killed.result()
    with pytest.raises(WorkerDiedError, match="ended with exit status 3"):
        left.result()
    assert [future.result() for future in others] == [base**3 for base in range(6)]


def test_an_error_travels(executor: LocalProcesses) -> None:
    with pytest.raises(InstanceError, match="this is why"):
        executor.submit(refuse, "this is why").result()
    assert executor.submit(pow, 2, 2).result() == 4


def test_a_worker_takes_no_interrupt_of_the_terminal(executor: LocalProcesses) -> None:
    executor.submit(die, signal.SIGINT).result()


def test_a_worker_that_starts_takes_no_interrupt_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "if 'spawn_main' in ' '.join(sys.orig_argv):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    executor = LocalProcesses(1)
    assert executor.submit(pow, 2, 2).result() == 4
    executor.shutdown()


def test_a_cancelled_executor_ends_its_runs_at_once(tmp_path: Path) -> None:
    executor = LocalProcesses(1)
    begun = tmp_path / "begun"
    running, waiting = executor.submit(wait_at, str(begun)), executor.submit(pow, 2, 2)
    while not (begun.exists() and begun.read_text()):
        wait([running], timeout=0.01)
    executor.shutdown(cancel_futures=True)
    assert isinstance(running.exception(), WorkerDiedError)
    assert waiting.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)
