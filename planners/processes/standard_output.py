"""Keeps standard output for the answer alone, and ends quietly when its reader has gone."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import textwrap
from collections.abc import Iterator
from typing import TypeVar

from planners.errors import GaplessError
from planners.text.progress_line import show_progress
from planners.text.table import Table

Found = TypeVar("Found")

# Descriptors of the real standard output, while descriptor 1 leads to standard error.
_kept: list[int] = []


@contextlib.contextmanager
def kept_for_the_answer() -> Iterator[None]:
    """Redirect the prints of planners, from Python or compiled code, to standard error."""
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as undo:
        # If the descriptors are closed, nothing can be printed, and nothing needs redirection.
        with contextlib.suppress(OSError):
            answer = os.dup(1)
            undo.callback(os.close, answer)
            _kept.append(answer)
            undo.callback(_kept.remove, answer)
            os.dup2(2, 1)
            undo.callback(os.dup2, answer, 1)
        yield


def kept_until_ctrl_c(found: Iterator[Found]) -> tuple[list[Found], bool]:
    """Return all that is found until Ctrl-C comes, and whether it came."""
    kept: list[Found] = []
    try:
        with kept_for_the_answer():
            kept.extend(found)
    except KeyboardInterrupt:
        return kept, True
    finally:
        show_progress("")
    return kept, False


def leave_to_the_parent() -> None:
    """Close, in a child process, the descriptors by which the parent writes the answer."""
    while _kept:
        os.close(_kept.pop())


def write_before_the_answer(line: str) -> None:
    """Write a line to the real standard output, while planners' prints are redirected."""
    os.write(_kept[-1], f"{line}\n".encode())


def write(text: str) -> None:
    """Write to standard output at once."""
    if sys.stdout is None:  # closed before the interpreter began
        raise BrokenPipeError
    # A name of an instance may have letters that the locale's encoding lacks.
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
    # Imported here because a table in a pipe does not need it.
    from rich.console import Console

    console = Console()
    write(_wrapped(above, console.width))
    console.print(table.rich(console.width))
    write(_wrapped(below, console.width))


def abandon() -> None:
    """Let the interpreter end quietly although standard output cannot be written.

    The interpreter flushes standard output at its end, which would fail once more.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _wrapped(text: str, width: int) -> str:
    """Break lines between words for a terminal; text in a pipe is not wrapped."""
    lines = [textwrap.fill(line, width, break_long_words=False) for line in text.split("\n")]
    return "\n".join(lines)
