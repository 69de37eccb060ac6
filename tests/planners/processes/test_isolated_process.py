"""Calls in processes of their own: answers, crashes, hangs, memory, Ctrl-C, and what is left."""

from __future__ import annotations

import _thread
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

from planners.errors import GaplessError
from planners.processes import isolated_process
from planners.processes.isolated_process import (
    AnsweredInterrupt,
    Ended,
    call_isolated,
    stream_isolated,
)
from tests.interrupts import heard_within, pressed_in_child

LONG = 600


def call(body: Callable[[], bytes], **limits: float) -> bytes | Ended:
    return call_isolated(body, most_bytes=1 << 24, **limits)  # type: ignore[arg-type]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def hang() -> bytes:
    time.sleep(LONG)
    return b""


@pytest.mark.parametrize("length", [0, 1, 1 << 16, (1 << 24) - 1, 1 << 24])
def test_an_answer_of_any_length(length: int) -> None:
    answer = os.urandom(length)
    assert call(lambda: answer) == answer


def test_closures_see_what_the_parent_has_and_change_nothing() -> None:
    seen = [1]

    def body() -> bytes:
        seen.append(2)
        return f"{os.getpid()} {seen}".encode()

    answer = call(body)
    assert isinstance(answer, bytes)
    pid, _, found = answer.decode().partition(" ")
    assert int(pid) != os.getpid()
    assert (found, seen) == ("[1, 2]", [1])


def raise_error() -> NoReturn:
    raise RuntimeError("a\nb")


@pytest.mark.parametrize(
    ("body", "ended"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGUSR1), Ended("ended by signal SIGUSR1", signal=10)),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), Ended("ended by signal SIGKILL", signal=9)),
        (lambda: os.kill(os.getpid(), 37), Ended("ended by signal SIGRTMIN+3", signal=37)),
        (lambda: os._exit(3), Ended("ended with exit status 3 before it answered")),
        (raise_error, Ended("ended with exit status 70 before it answered")),
        (lambda: b"x" * (1 << 24) + b"x", Ended("sent more than an answer")),
        (lambda: os.closerange(3, 100), Ended("ended with exit status 70 before it answered")),
    ],
)
def test_each_ending_of_a_child_is_told(body: Callable[[], bytes], ended: Ended) -> None:
    before = descriptors()
    assert call(body) == ended
    assert descriptors() == before


def test_a_hanging_child_is_killed_with_its_children(tmp_path: Path) -> None:
    told = tmp_path / "pid"

    def body() -> bytes:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        grandchild = subprocess.Popen(["sleep", str(LONG)])
        told.write_text(f"{os.getpid()} {grandchild.pid}\n")
        return hang()

    ended = call(body, seconds=1.0)
    assert ended == Ended("did not end in time and was killed", late=True)
    # On a machine under load the process may not have come so far.
    for pid in told.read_text().split() if told.exists() else []:
        wait_until(lambda pid=pid: not is_running(int(pid)))  # type: ignore[misc]


def test_a_grandchild_that_holds_the_pipe_does_not_hold_up_the_parent() -> None:
    def body() -> bytes:
        if os.fork() == 0:
            time.sleep(LONG)
        os._exit(5)

    assert call(body) == Ended("ended with exit status 5 before it answered")


def test_memory_is_limited_to_what_it_may_add() -> None:
    def take(size: int) -> Callable[[], bytes]:
        def body() -> bytes:
            try:
                return b"%d" % len(bytearray(size))
            except MemoryError:
                return b"refused"

        return body

    assert call(take(1 << 24), memory_bytes=1 << 26) == b"%d" % (1 << 24)
    assert call(take(1 << 28), memory_bytes=1 << 26) == b"refused"


def best_so_far() -> bytes:
    try:
        return pressed_in_child(hang, deaf=False)()
    except KeyboardInterrupt:
        return b"best so far"


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (pressed_in_child(hang, deaf=False), None),
        (best_so_far, b"best so far"),
        (pressed_in_child(lambda: b"under way", deaf=True), b"under way"),
        (pressed_in_child(lambda: os._exit(3), deaf=True), None),
    ],
    ids=["ends", "answers", "answers anyway", "exits"],
)
def test_ctrl_c_is_raised_with_the_answer_if_there_is_one(
    body: Callable[[], bytes], answer: bytes | None
) -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        call(body, interrupt_grace_seconds=LONG)
    assert getattr(raised.value, "answer", None) == answer
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("module", "name"), [(select, "select"), (os, "read"), (os, "wait4"), (os, "close")]
)
def test_ctrl_c_at_any_step_loses_no_answer(
    module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes right before a system call, and hence does not end it."""
    step = heard_within(getattr(module, name))
    waits, goes_on = os.pipe()

    def body(send: Callable[[bytes], None]) -> bytes:
        try:
            send(b"here")
            return hang() if name == "select" else os.read(waits, 7)
        except KeyboardInterrupt:
            return b"answers"

    def press(_: bytes) -> None:
        def pressed(*arguments: Any) -> Any:
            monkeypatch.undo()
            return step(*arguments)

        os.write(goes_on, b"answers")
        monkeypatch.setattr(module, name, pressed)

    with pytest.raises(AnsweredInterrupt) as raised:
        stream_isolated(body, press, most_bytes=16, interrupt_grace_seconds=LONG)
    assert raised.value.answer == b"answers"
    for end in (waits, goes_on):
        os.close(end)


def test_ctrl_c_that_another_thread_hears_at_the_fork_leaves_no_child_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork = os.fork
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    children = []

    def interrupted() -> int:
        pid = fork()
        if pid:
            children.append(pid)
            _thread.interrupt_main()
        return pid

    monkeypatch.setattr(os, "fork", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call(hang)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)


def test_ctrl_c_ends_a_child_that_ignores_it() -> None:
    def body() -> bytes:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.kill(os.getppid(), signal.SIGINT)
        return hang()

    with pytest.raises(KeyboardInterrupt):
        call_isolated(body, most_bytes=1, interrupt_grace_seconds=0.1)


def test_standard_input_is_empty_and_nothing_is_printed_twice() -> None:
    code = """
        import sys
        from planners.processes.isolated_process import call_isolated
        print("once", end=" ")
        sys.stderr.write("and ")
        print(call_isolated(lambda: sys.stdin.read().encode(), most_bytes=9))
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        input="for the parent", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("once b''\n", "and ")


CHILD_OF_A_PARENT = {
    "isolated": """
        import os, time
        from planners.processes.isolated_process import call_isolated
        def body():
            print(os.getpid(), flush=True)
            time.sleep(600)
        call_isolated(body, most_bytes=1)
        """,
    "program": """
        import time
        from planners.processes import child_process
        print(child_process.start(["sleep", "600"], start_new_session=True).pid, flush=True)
        time.sleep(600)
        """,
    "pool": """
        import os, time
        from evaluation.study.executors import LocalProcesses
        def say():
            print(os.getpid(), flush=True)
            time.sleep(600)
        if __name__ == "__main__":
            LocalProcesses(1).submit(say).result()
        """,
}


@pytest.mark.parametrize("kind", CHILD_OF_A_PARENT)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_child_outlives_its_parent(kind: str, number: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(textwrap.dedent(CHILD_OF_A_PARENT[kind]))
    parent = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_running(child)
    parent.send_signal(number)
    parent.wait()
    wait_until(lambda: not is_running(child))
    parent.stdout.close()


def test_a_parent_that_died_before_the_child_could_ask_takes_it_along() -> None:
    from planners.processes.child_process import tied_to_this_process

    end_with_parent = tied_to_this_process()

    def body() -> bytes:
        # Its parent is this function's process, and not the one that the test runs in.
        pid = os.fork()
        if not pid:
            end_with_parent()
            os._exit(0)
        return b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert call(body) == b"-9"


def test_messages_come_in_order_and_before_the_answer() -> None:
    messages = [b"", b"a", os.urandom(1 << 17), b"b" * (1 << 20)]
    received: list[bytes] = []

    def body(send: Callable[[bytes], None]) -> bytes:
        for message in messages:
            send(message)
        return b"answer"

    assert stream_isolated(body, received.append, most_bytes=1 << 20) == b"answer"
    assert received == messages


def test_messages_before_the_time_limit_are_not_lost() -> None:
    received: list[bytes] = []

    def body(send: Callable[[bytes], None]) -> bytes:
        send(b"early")
        return hang()

    answer = stream_isolated(body, received.append, seconds=1, most_bytes=10)
    assert isinstance(answer, Ended)
    assert answer.late
    assert received == [b"early"]


def test_a_message_that_is_too_long_ends_the_call() -> None:
    received: list[bytes] = []

    def body(send: Callable[[bytes], None]) -> bytes:
        send(bytes(5))
        send(bytes(6))
        return hang()

    answer = stream_isolated(body, received.append, most_bytes=5)
    assert answer == Ended("sent more than an answer")
    assert received == [bytes(5)]


def test_a_limit_on_memory_without_proc_is_an_error_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated_process, "ADDRESS_SPACE", tmp_path / "none")
    before = descriptors()
    with pytest.raises(GaplessError, match=r"needs .*none, which is missing here; mount /proc"):
        call(lambda: b"", memory_bytes=1 << 26)
    assert descriptors() == before
    assert call(lambda: b"no limit") == b"no limit"
