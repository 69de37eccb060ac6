"""What a command line of ours does while it is still being imported: one line and its exit status.

Imported first by every package of ours, and with nothing that takes time, for NumPy alone takes
longer to import than a user takes to press Ctrl-C. Once the command line runs,
:mod:`planners.command_line.typer_frame` does the same.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from types import FrameType, TracebackType

EXIT_ERROR = 2

# What ends a run in order: Ctrl-C, ``kill``, a terminal that is closed.
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_PACKAGES = ("planners", "instances", "gpu_runtime", "evaluation")
_SCRIPTS = ("gapless", "gapless-compare")


def exit_status_of(number: int) -> int:
    """Return the exit status of a process that a signal ended, as shells have it."""
    return 128 + number


def ending_line(number: int) -> str:
    """Return what is said where a signal ended a run."""
    by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
    return f"interrupted{by}"


def broken_import(error: ImportError) -> str:
    """Return the line for an import that failed: what is missing, and what installs it."""
    # Imported here because nearly every import succeeds.
    import re
    from importlib.metadata import PackageNotFoundError, requires

    missing = (error.name or "").partition(".")[0]
    with contextlib.suppress(PackageNotFoundError):
        for requirement in requires("gapless") or []:
            package = re.match(r"[\w.-]+", requirement)
            if package and package[0] == missing:
                from planners.errors import install_command

                extra = re.search(r"extra == ['\"]([\w-]+)", requirement)
                return f"{error}; install with: {install_command(extra[1] if extra else '')}"
    return str(error)


def give_back() -> None:
    """Let signals and exceptions do what they do in any program of Python.

    For a process that no user has started, and that has to end at once, also within a long call
    of compiled code, behind which a handler of ours would wait.
    """
    sys.excepthook = sys.__excepthook__
    atexit.unregister(_ignore_signals)
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) is _leave:
            is_interrupt = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)


def _is_starting() -> bool:
    """Return whether this process was started for a command line of ours.

    The arguments are the last of both lists, and what is run stands right before them:
    a module after ``-m`` or the path of a script.
    """
    place = len(sys.orig_argv) - len(getattr(sys, "argv", []))
    if not 0 < place < len(sys.orig_argv):
        return False
    program = os.path.basename(sys.orig_argv[place]).removeprefix("-m")
    is_module = program.partition(".")[0] in _PACKAGES and not program.endswith(".py")
    return is_module or program in _SCRIPTS


def _leave(number: int, _frame: FrameType | None) -> None:
    # Nothing is there to be kept or taken down. An exception could be lost in what is imported.
    with contextlib.suppress(OSError):  # nobody to tell
        os.write(2, f"{ending_line(number)}\n".encode())
    os._exit(exit_status_of(number))


def _complain(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(error, ImportError):
        sys.__excepthook__(kind, error, trace)
        return
    if sys.stderr is not None:
        print(f"error: {' '.join(broken_import(error).split())}", file=sys.stderr, flush=True)
    os._exit(EXIT_ERROR)


def _ignore_signals() -> None:
    # The interpreter is being taken down, and would give them back what they do by default.
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


if _is_starting():
    sys.excepthook = _complain
    atexit.register(_ignore_signals)  # first, and therefore called last
    for _number in ENDING_SIGNALS:
        # A shell's background job and ``nohup`` have them ignored, and mean it.
        if signal.getsignal(_number) is not signal.SIG_IGN:
            signal.signal(_number, _leave)
