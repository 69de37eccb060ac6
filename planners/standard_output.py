"""Standard output for the answer alone, and quiet when its reader has gone."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import NoReturn


@contextlib.contextmanager
def kept_for_the_answer() -> Iterator[None]:
    """Send to standard error what planners print, from Python or from compiled code."""
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as undo:
        # Closed descriptors: nothing can be printed there, and nothing needs to be kept apart.
        with contextlib.suppress(OSError):
            answer = os.dup(1)
            undo.callback(os.close, answer)
            os.dup2(2, 1)
            undo.callback(os.dup2, answer, 1)
        yield


def write(text: str) -> None:
    """Write to standard output at once; raises ``BrokenPipeError`` where nobody reads."""
    sys.stdout.write(text)
    sys.stdout.flush()


def abandon() -> None:
    """Let the interpreter end quietly after a broken pipe.

    It flushes standard output on its way out, which would fail once more.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def leave_at_once(code: int) -> NoReturn:
    """End the process with everything written, and nothing else taken down."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
