"""Standard output for the answer alone, and quiet when its reader has gone."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import textwrap
from collections.abc import Iterator
from typing import NoReturn

from planners.errors import GaplessError
from planners.text.table import Table

# Where the answer goes, while descriptor 1 leads to standard error.
_kept: list[int] = []


@contextlib.contextmanager
def kept_for_the_answer() -> Iterator[None]:
    """Send to standard error what planners print, from Python or from compiled code."""
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as undo:
        # Closed descriptors: nothing can be printed there, and nothing needs to be kept apart.
        with contextlib.suppress(OSError):
            answer = os.dup(1)
            undo.callback(os.close, answer)
            _kept.append(answer)
            undo.callback(_kept.remove, answer)
            os.dup2(2, 1)
            undo.callback(os.dup2, answer, 1)
        yield


def leave_to_the_parent() -> None:
    """Close, in a child process, what leads to the answer that the parent writes."""
    while _kept:
        os.close(_kept.pop())


def write_before_the_answer(line: str) -> None:
    """Write a line where the answer will go, while that is kept."""
    os.write(_kept[-1], f"{line}\n".encode())


def write(text: str) -> None:
    """Write to standard output at once."""
    if sys.stdout is None:  # closed before the interpreter began
        raise BrokenPipeError
    # A name of an instance may have letters that the locale's encoding has not.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon()
        raise GaplessError(f"standard output cannot be written: {error.strerror}") from None


def write_table(table: Table, above: str = "", below: str = "") -> None:
    """Write a table between lines: in colours, as wide as the terminal, or as text for a pipe."""
    if sys.stdout is None or not sys.stdout.isatty():
        write(above + table.plain() + below)
        return
    # Imported here because a table in a pipe does without it.
    from rich.console import Console

    console = Console()
    write(_wrapped(above, console.width))
    console.print(table.rich(console.width))
    write(_wrapped(below, console.width))


def abandon() -> None:
    """Let the interpreter end quietly where standard output cannot be written.

    It flushes standard output on its way out, which would fail once more.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def leave_at_once(code: int) -> NoReturn:
    """End the process with everything written, and nothing else taken down."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _wrapped(text: str, width: int) -> str:
    """Break lines between words, as a terminal does not; a pipe keeps them whole."""
    lines = [textwrap.fill(line, width, break_long_words=False) for line in text.split("\n")]
    return "\n".join(lines)
