"""How every program of ours ends: one line for a mistake or an interrupt, and its exit status."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable
from typing import NoReturn

from planners.command_line import standard_output
from planners.command_line.interrupt import Interrupt
from planners.command_line.progress_line import show_progress
from planners.command_line.starting import (
    ENDING_SIGNALS,
    EXIT_ERROR,
    broken_import,
    exit_status_of,
)
from planners.errors import GaplessError
from planners.text.plain_text import one_line, text_of

EXIT_INTERRUPTED = exit_status_of(signal.SIGINT)
EXIT_NOBODY_READS = exit_status_of(signal.SIGPIPE)

# Of one message; it may quote a file of any size.
MOST_CHARACTERS = 4000


def complain(error: Exception) -> int:
    """Say an error in one line on standard error, and return the exit status of it."""
    _say(f"error: {one_line(str(error), MOST_CHARACTERS)}")
    return EXIT_ERROR


def run_in_order(body: Callable[[], int]) -> int:
    """Run a program, say what ended it too early, and return its exit status."""
    interrupt = Interrupt()
    try:
        with interrupt, warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = _guarded(body, interrupt)
            return _interrupted(interrupt) if interrupt.came or code == EXIT_INTERRUPTED else code
    except KeyboardInterrupt:  # in the few lines around what runs
        return _interrupted(interrupt)


def leave(code: int) -> NoReturn:
    """End the process: at once where a signal ended the program.

    A search in compiled code that did not stop in time may still run in a thread, and taking the
    interpreter down around it would abort.
    """
    if code in map(exit_status_of, ENDING_SIGNALS):
        standard_output.leave_at_once(code)
    sys.exit(code)


def _guarded(body: Callable[[], int], interrupt: Interrupt) -> int:
    try:
        return body()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        standard_output.abandon()
        return EXIT_NOBODY_READS
    except SystemExit as end:
        # So rich ends a program whose help nobody reads.
        if isinstance(end.__context__, BrokenPipeError):
            return EXIT_NOBODY_READS
        raise
    except (GaplessError, OSError) as error:
        mistake: Exception = error
    except ImportError as error:
        mistake = GaplessError(broken_import(error))
    except MemoryError as error:
        mistake = GaplessError(f"not enough memory; {error}".rstrip("; "))
    except Exception:
        # Compiled code may make another error of the interrupt that came while it ran.
        if not interrupt.came:
            raise
        return EXIT_INTERRUPTED
    show_progress("")
    if interrupt.came:  # and that is why
        return EXIT_INTERRUPTED
    return complain(mistake)


def _interrupted(interrupt: Interrupt) -> int:
    show_progress("")
    _say(interrupt.line)
    return interrupt.exit_status


def _show_warning(message: Warning | str, *_where: object, **_rest: object) -> None:
    _say(f"warning: {text_of(message)}")


def _say(line: str) -> None:
    # Where standard error is closed there is nobody to tell; print would take standard output.
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)
