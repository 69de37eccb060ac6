"""Child processes that end with their parent, even if the parent is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

# Option of prctl(2) that sets the signal which this process gets when its parent dies.
PR_SET_PDEATHSIG = 1


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a program that ends with this process; the options are those of ``Popen``."""
    return subprocess.Popen(command, preexec_fn=tied_to_this_process(), **options)  # noqa: PLW1509


def run_to_end(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a program that ends with this process; the options are those of ``subprocess.run``."""
    return subprocess.run(  # noqa: PLW1510
        command, preexec_fn=tied_to_this_process(), **options
    )


def tied_to_this_process() -> Callable[[], None]:
    """Return a function that ties a child to this process; the child calls it first. It can pickle.

    Note: how a child ends with its parent. A parent cannot end its children reliably, because
    SIGKILL runs no code in the parent. So the child asks the kernel for SIGKILL at its parent's
    death. The request survives ``exec``, so any program can be a child. If the parent died before
    the request, the child has another parent and kills itself. The kernel watches the *thread*
    that started the child, so a caller must wait for the child in the same thread. Between fork
    and exec the child makes three system calls through functions that were looked up before: none
    takes a lock that another thread could have held at the fork.
    """
    _prctl()
    return partial(_end_with, os.getpid())


def signal_name(number: int) -> str:
    """Return the name of a signal that ended a process, such as SIGKILL or SIGRTMIN+3."""
    try:
        return signal.Signals(number).name
    except ValueError:  # Python names only the first and the last of the real-time signals
        return f"SIGRTMIN{number - signal.SIGRTMIN:+d}"


def how_it_ended(code: int) -> str:
    """Return how a process ended, from the exit code that Python gives it: minus its signal."""
    return f"ended by signal {signal_name(-code)}" if code < 0 else f"ended with exit status {code}"


def _end_with(parent: int) -> None:
    prctl = _prctl()
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


@cache
def _prctl() -> Callable[[int, int], int] | None:
    """Return the system call, or None if the kernel is not Linux."""
    function: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "prctl", None)
    return function
