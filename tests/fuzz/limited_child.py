"""Work in a child that dies, and nobody else, of taking too much memory or processor time."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

MIB = 1 << 20


def lines_of_child(work: Callable[[Callable[[str], None]], None], memory: int) -> Iterator[str]:
    """Run work in a forked child; yield what it says, and last how it ended, unless it ended well.

    The child may map so many bytes beyond those of this process; a refused byte is a `MemoryError`.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        with suppress(BaseException):
            os.close(reading)
            limit_memory(memory)
            work(lambda line: _write(writing, line))
            status = 0
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as lines:
        yield from (line.rstrip("\n") for line in lines)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        yield f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    elif os.WEXITSTATUS(status):
        yield "ended without a word"


def limit_memory(more: int) -> None:
    """Let this process map so many bytes beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def limit_cpu(seconds: int) -> None:
    """Have this process killed, by SIGXCPU, once it has taken so many more seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _write(descriptor: int, line: str) -> None:
    os.write(descriptor, (line.replace("\n", "\\n") + "\n").encode("utf-8", "backslashreplace"))
