"""The end of every command line: one line for an error or an interrupt, and the exit status."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable
from typing import NoReturn

from planners.command_line.starting import EXIT_ERROR
from planners.errors import GaplessError
from planners.processes import standard_output
from planners.processes.interrupt import ENDING_SIGNALS, Interrupt, exit_status_of, leave_at_once
from planners.text.plain_text import one_line, text_of
from planners.text.progress_line import show_progress

EXIT_INTERRUPTED = exit_status_of(signal.SIGINT)
EXIT_NOBODY_READS = exit_status_of(signal.SIGPIPE)

# Limit of one message, which may quote a file of any size.
MOST_CHARACTERS = 4000


def complain(error: Exception) -> int:
    """Print an error as one line on standard error, and return its exit status."""
    _say(f"error: {one_line(str(error), MOST_CHARACTERS)}")
    return EXIT_ERROR


def run_in_order(body: Callable[[], int]) -> int:
    """Run a program, print the error or interrupt that ended it, and return its exit status."""
    interrupt = Interrupt()
    try:
        with interrupt, warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = _guarded(body, interrupt)
            return _interrupted(interrupt) if interrupt.came or code == EXIT_INTERRUPTED else code
    except KeyboardInterrupt:  # in the few lines around the program
        return _interrupted(interrupt)


def leave(code: int) -> NoReturn:
    """End the process; end it at once if a signal ended the program.

    A search in compiled code that did not stop in time may still run in a thread, and the
    interpreter's normal shutdown would then abort.
    """
    if code in map(exit_status_of, ENDING_SIGNALS):
        leave_at_once(code)
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
        # rich ends a program in this way if the pipe that reads its help is closed.
        if isinstance(end.__context__, BrokenPipeError):
            return EXIT_NOBODY_READS
        raise
    except GaplessError as error:
        mistake: Exception = error
    except OSError as error:
        named = error.filename is not None and error.strerror
        mistake = GaplessError(f"{error.filename}: {named}") if named else error
    except ImportError as error:
        # Imported only here, because a command that runs well never comes here.
        from planners.missing_core import broken_import

        mistake = GaplessError(broken_import(error))
    except MemoryError as error:
        mistake = GaplessError(f"not enough memory; {error}".rstrip("; "))
    except Exception:
        # Compiled code may turn an interrupt that came while it ran into another error.
        if not interrupt.came:
            raise
        return EXIT_INTERRUPTED
    show_progress("")
    if interrupt.came:  # the interrupt caused the error
        return EXIT_INTERRUPTED
    return complain(mistake)


def _interrupted(interrupt: Interrupt) -> int:
    show_progress("")
    _say(interrupt.line)
    return interrupt.exit_status


def _show_warning(message: Warning | str, *_where: object, **_rest: object) -> None:
    _say(f"warning: {text_of(message)}")


def _say(line: str) -> None:
    # If standard error is closed, print would write to standard output.
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)
