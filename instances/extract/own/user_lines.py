"""A user's code as it runs: where in the file something went wrong, and what it prints."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from planners.command_line import standard_output
from planners.errors import GaplessError, InstanceError
from planners.text.plain_text import describe_error, text_of

# How PyTorch begins what it says of a tensor that it cannot follow; whole sentences go on with
# advice for its developers.
_MADE_ELSEWHERE = "Please convert all Tensors to FakeTensors first"
_DEPENDS_ON_DATA = ("DataDependentOutputException", "DynamicOutputShapeException")


@contextmanager
def user_code(path: Path, otherwise: int | None = None) -> Iterator[None]:
    """Say of whatever a user's code raises in which line of the file it began.

    That is the deepest call of the file; where there is none, the line `otherwise`. What the code
    prints goes to standard error, as the answer of a command is ours.
    """
    try:
        with standard_output.kept_for_the_answer():
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a file may end in any way, SystemExit among them
        line = _line_of(error, path) or otherwise
        where = path if line is None else f"{path}:{line}"
        raise InstanceError(f"{where}: {_described(error)}") from error


def _line_of(error: BaseException, path: Path) -> int | None:
    file = str(path.resolve())
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == file), None)


def _described(error: BaseException) -> str:
    if isinstance(error, GaplessError):
        return str(error)
    if type(error).__name__ in _DEPENDS_ON_DATA:
        return (
            f"memory that depends on the values of data cannot be traced, as fake tensors have "
            f"none; found {text_of(error)}"
        )
    if _MADE_ELSEWHERE in text_of(error):
        return "a tensor made outside of the traced function is used; make it within"
    return describe_error(error)
