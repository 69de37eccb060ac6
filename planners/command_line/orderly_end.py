"""How every program of ours ends: one line for a mistake or an interrupt, and its exit status."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

from planners.command_line import standard_output
from planners.command_line.exit_status import EXIT_INTERRUPTED, EXIT_NOBODY_READS, complain
from planners.command_line.interrupt import Interrupt
from planners.command_line.progress_line import show_progress
from planners.command_line.starting import broken_import
from planners.errors import GaplessError
from planners.text.plain_text import text_of


def exit_status(body: Callable[[], int]) -> int:
    """Run a program and return its exit status."""
    interrupt = Interrupt()
    try:
        with interrupt, warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = _guarded(body, interrupt)
            return _interrupted(interrupt) if interrupt.came or code == EXIT_INTERRUPTED else code
    except KeyboardInterrupt:  # in the few lines around what runs
        return _interrupted(interrupt)


def _guarded(body: Callable[[], int], interrupt: Interrupt) -> int:
    try:
        return body()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        standard_output.abandon()
        return EXIT_NOBODY_READS
    except (GaplessError, OSError) as error:
        mistake: Exception = error
    except ImportError as error:
        mistake = GaplessError(broken_import(error))
    except MemoryError as error:
        mistake = GaplessError(f"not enough memory; {error}".rstrip("; "))
    show_progress("")
    if interrupt.came:  # and that is why
        return EXIT_INTERRUPTED
    return complain(mistake)


def _interrupted(interrupt: Interrupt) -> int:
    show_progress("")
    if sys.stderr is not None:
        print(interrupt.line, file=sys.stderr, flush=True)
    return interrupt.exit_status


def _show_warning(message: Warning | str, *_where: object, **_rest: object) -> None:
    if sys.stderr is not None:
        print(f"warning: {text_of(message)}", file=sys.stderr, flush=True)
