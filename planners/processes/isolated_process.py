"""Calls in a process of its own, which may crash, hang or use up memory without harm here."""

from __future__ import annotations

import json
import math
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn

from planners.errors import GaplessError, InstanceError
from planners.processes import standard_output
from planners.processes.child_process import how_it_ended, tied_to_this_process
from planners.processes.interrupt import signals_wait
from planners.text.plain_text import describe_error, shown

# Linux tells here the address space of a process, in pages.
ADDRESS_SPACE = Path("/proc/self/statm")

# Seconds in which a child must answer after Ctrl-C, with the best that it has. A guess.
INTERRUPT_GRACE_SECONDS = 2.0

# Seconds in which a child must end after it closed its pipe without an answer. A guess.
CLOSED_GRACE_SECONDS = 1.0

# Each message begins with its length, in `PREFIX_BYTES` bytes. In messages before the answer, the
# bit `BEFORE_THE_ANSWER` is added to the length.
PREFIX_BYTES = 8
BEFORE_THE_ANSWER = 1 << 63
PIECE_BYTES = 1 << 20
# The longest single wait. A signal that arrives right before a wait does not end the wait, and is
# handled only after it. A guess.
MOST_WAIT_SECONDS = 0.5
# Exit status of a child whose call raised. The child printed the error on standard error, unless
# it was a ``KeyboardInterrupt``.
EXIT_RAISED = 70
# Limit of an answer of a user's code; a guess.
MOST_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True)
class Ended:
    """The end of a child process that gave no answer."""

    how: str
    # True if the parent killed the child because its time was over.
    late: bool = False
    # The signal that ended the child; 0 if it exited, or if the parent killed it.
    signal: int = 0


class AnsweredInterrupt(KeyboardInterrupt):
    """Ctrl-C that came before an answer was returned; it carries the answer."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


def call_isolated(
    call: Callable[[], bytes],
    *,
    seconds: float = math.inf,
    memory_bytes: int | None = None,
    most_bytes: int,
    interrupt_grace_seconds: float = INTERRUPT_GRACE_SECONDS,
) -> bytes | Ended:
    """Run a call in a process of its own, and kill the process if it does not end in time.

    Note: the process is a fork. So the call may be any closure over any object, such as a planner
    of a plugin or a problem of gigabytes, and the child begins at once. The child has no other
    threads of its parent, and a lock that one of them held stays locked. A call that waits for
    such a lock is killed at its time limit, like any other call that hangs. The answer is bytes and
    not a pickle, since the call may have run code that corrupted its process: the caller checks
    the answer like a file.
    """
    return stream_isolated(
        lambda _: call(),
        lambda _: None,
        seconds=seconds,
        memory_bytes=memory_bytes,
        most_bytes=most_bytes,
        interrupt_grace_seconds=interrupt_grace_seconds,
    )


def stream_isolated(
    call: Callable[[Callable[[bytes], None]], bytes],
    receive: Callable[[bytes], None],
    *,
    seconds: float = math.inf,
    memory_bytes: int | None = None,
    most_bytes: int,
    interrupt_grace_seconds: float = INTERRUPT_GRACE_SECONDS,
) -> bytes | Ended:
    """Run a call as :func:`call_isolated` does, and receive messages from it while it runs.

    The call gets a function that sends a message, and `receive` is called with each message.
    Messages that arrived before the process was killed are not lost. ``most_bytes`` limits each
    message.

    Note: interrupts. Signals are held back except while this process waits for the child. So a
    Ctrl-C neither cuts a message that is being read nor leaves a child that no code ends. It is
    passed on to the child, and always raised here as well: as an `AnsweredInterrupt` if the child
    answers nevertheless.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()  # else the child would write the same text again
    # Asked before the fork, so that the caller gets the error.
    most_space = None if memory_bytes is None else address_space_bytes() + memory_bytes
    end_with_parent = tied_to_this_process()
    reader, writer = os.pipe()
    held = signals_wait()
    try:
        with warnings.catch_warnings():
            # Python warns of a fork in a process with threads; see the note of `call_isolated`.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            os.close(reader)
            _be_child(call, writer, end_with_parent, most_space)
    except BaseException:
        os.close(reader)
        os.close(writer)
        held.close()
        raise
    os.close(writer)
    child = _Child(pid, reader, receive, held)
    answer: bytes | Ended | None = None
    try:
        try:
            answer = child.receive(time.monotonic() + seconds, most_bytes)
        except KeyboardInterrupt:
            os.kill(pid, signal.SIGINT)
            answer = child.receive(time.monotonic() + interrupt_grace_seconds, most_bytes)
            raise
        finally:
            child.end()
    except KeyboardInterrupt:
        if isinstance(answer, bytes):
            raise AnsweredInterrupt(answer) from None
        raise
    return answer


def answer_apart(
    name: str, call: Callable[[], Mapping[str, Any]], kinds: Mapping[str, type | UnionType]
) -> dict[str, Any]:
    """Run a call in a process of its own; return its answer, whose fields are of these kinds.

    Note: a user's file may end its process, close or write to any descriptor, fork, or replace
    what Python brings. So the process says at its end that it answers, over a pipe of its own;
    whatever else happens is an ``InstanceError``.
    """

    def in_the_child() -> bytes:
        standard_output.leave_to_the_parent()
        try:
            said = call()
            return json.dumps(said).encode()
        except GaplessError as error:
            return json.dumps({"error": str(error)}).encode()
        except Exception as error:
            return json.dumps({"error": f"{name}: {describe_error(error)}"}).encode()

    sent = call_isolated(in_the_child, most_bytes=MOST_ANSWER_BYTES)
    if isinstance(sent, Ended):
        raise InstanceError(f"{name}: its process {sent.how}")
    try:
        found = json.loads(sent)
    except ValueError:
        found = None
    if isinstance(found, dict) and found.keys() == {"error"}:
        kinds = {"error": str}
    if (
        not isinstance(found, dict)
        or found.keys() != kinds.keys()
        or not all(isinstance(found[key], kind) for key, kind in kinds.items())
    ):
        raise InstanceError(f"{name}: its process sent no valid answer, found {shown(sent)}")
    if "error" in found:
        raise InstanceError(found["error"])
    return found


class _Child:
    """A child process, as its parent sees it: the pipe, the messages, the end."""

    def __init__(
        self, pid: int, reader: int, receive: Callable[[bytes], None], held: ExitStack
    ) -> None:
        self.pid = pid
        self.late = False
        self.too_long = False
        self.status: int | None = None
        self._reader = reader
        self._receive = receive
        self._held = held
        self._received = bytearray()
        self._process = os.pidfd_open(pid)

    def receive(self, deadline: float, most_bytes: int) -> bytes | Ended:
        """Return the answer, or how the child ended: alone, late, or with a message too long."""
        while True:
            wait = min(MOST_WAIT_SECONDS, deadline - time.monotonic())
            if wait <= 0:
                self.late = True
                return self._how_it_ended()
            ready = self._wait(wait)
            if self._reader in ready:
                piece = os.read(self._reader, PIECE_BYTES)
                if not piece:
                    return self._how_it_ended()
                self._received += piece
            elif ready:
                return self._how_it_ended()  # the child has ended, and its pipe is empty
            for answers, message in self._messages(most_bytes):
                if answers:
                    return message
                self._receive(message)
            if self.too_long:
                return self._how_it_ended()

    def _wait(self, seconds: float) -> list[int]:
        """Wait for the pipe or the end of the child; an interrupt is raised here alone."""
        try:
            self._held.close()
            return select.select([self._reader, self._process], [], [], seconds)[0]
        finally:
            self._held = signals_wait()

    def _messages(self, most_bytes: int) -> Iterator[tuple[bool, bytes]]:
        """Take complete messages; yield for each True if it is the answer, and its bytes."""
        while len(self._received) >= PREFIX_BYTES:
            prefix = int.from_bytes(self._received[:PREFIX_BYTES], "little")
            length = prefix & ~BEFORE_THE_ANSWER
            self.too_long = length > most_bytes
            end = PREFIX_BYTES + length
            if self.too_long or len(self._received) < end:
                return
            message = bytes(self._received[PREFIX_BYTES:end])
            del self._received[:end]
            yield prefix == length, message

    def _how_it_ended(self) -> Ended:
        if self.late:
            return Ended("did not end in time and was killed", late=True)
        if self.too_long:
            return Ended("sent more than an answer")
        # A child that has closed its pipe without an answer may still run.
        select.select([self._process], [], [], CLOSED_GRACE_SECONDS)
        self.end()
        assert self.status is not None
        code = os.waitstatus_to_exitcode(self.status)
        how = how_it_ended(code)
        return Ended(how, signal=-code) if code < 0 else Ended(f"{how} before it answered")

    def end(self) -> None:
        """Kill the child and its process group, and let signals in; a second call does nothing."""
        if self.status is not None:
            return
        # The system reuses the process id only after the wait below.
        for kill in (os.kill, os.killpg):
            with suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)
        _, self.status, _ = os.wait4(self.pid, 0)
        os.close(self._process)
        os.close(self._reader)
        self._held.close()


def _be_child(
    call: Callable[[Callable[[bytes], None]], bytes],
    writer: int,
    end_with_parent: Callable[[], None],
    most_space: int | None,
) -> NoReturn:
    code = EXIT_RAISED
    try:
        end_with_parent()
        # In a session of its own, the child gets no Ctrl-C from the terminal. The processes that it
        # starts are in its process group, so that the parent can kill them all.
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if most_space is not None:
            resource.setrlimit(resource.RLIMIT_AS, (most_space, most_space))
        pid, pipe = os.getpid(), os.fstat(writer)

        def send(message: bytes, mark: int = BEFORE_THE_ANSWER) -> None:
            # The call may have forked, or closed the pipe and opened a file with its descriptor.
            if os.getpid() != pid or not os.path.samestat(os.fstat(writer), pipe):
                raise BrokenPipeError("the pipe for the answer is not there any more")
            _write(writer, message, mark)

        send(call(send), 0)
        code = 0
    except KeyboardInterrupt:
        pass  # the parent sent the interrupt
    except BaseException as error:
        with suppress(BaseException):
            print(describe_error(error), file=sys.stderr)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):
                stream.flush()
        os._exit(code)


def _write(writer: int, message: bytes, mark: int) -> None:
    rest = memoryview((len(message) | mark).to_bytes(PREFIX_BYTES, "little") + message)
    while rest:
        rest = rest[os.write(writer, rest) :]


def address_space_bytes() -> int:
    """Return the address space of this process, which a limit on memory is added to."""
    try:
        pages = int(ADDRESS_SPACE.read_text(encoding="ascii").split()[0])
    except OSError:
        raise GaplessError(
            f"a limit on memory needs {ADDRESS_SPACE}, which is missing here; mount /proc"
        ) from None
    return pages * resource.getpagesize()
