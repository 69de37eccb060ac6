"""Entry points of installed packages; a broken one gives a warning and never an error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gapless_siblings import showing
from planners.errors import GaplessError
from planners.processes.interrupt import Interrupt, signals_wait
from planners.text.plain_text import describe_error

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OURS = "gapless"


def load_group(group: str, what: str) -> Iterator[tuple[str, Any]]:
    """Import the entry points of one group; a failing one is left out, with a warning."""
    # Imported here because it costs as much as the rest of this package without NumPy.
    from importlib.metadata import entry_points

    # Our own come first, so that a name stays ours if another package wants it too.
    found = sorted(entry_points(group=group), key=lambda entry: _distribution(entry) != OURS)
    for entry in found:
        try:
            loaded = load_entry(entry)
        except BaseException as error:  # a broken third party must not take everything down
            if isinstance(error, KeyboardInterrupt) or Interrupt.has_come():
                raise KeyboardInterrupt from error
            warn_left_out(f"{what} {entry.name} ({entry.value})", error)
        else:
            yield entry.name, loaded


@contextmanager
def foreign(
    what: str,
    error_of: type[GaplessError] = GaplessError,
    passed_on: tuple[type[BaseException], ...] = (GaplessError,),
) -> Iterator[None]:
    """Turn whatever a third party's code raises into an error of one line, which says where."""
    try:
        yield
    except BaseException as error:  # it may end in any way, SystemExit among them
        if isinstance(error, (KeyboardInterrupt, *passed_on)):
            raise
        if Interrupt.has_come():
            raise KeyboardInterrupt from error
        raise error_of(f"{what}: {describe_error(error)}") from error


def load_entry(entry: EntryPoint) -> Any:
    """Import the object of an entry point; one of ours is found in a package of ours."""
    if _distribution(entry) == OURS:
        # Our compiled core aborts where a handler raises in its import.
        with showing(ours=True), signals_wait():
            return entry.load()
    return entry.load()


def _distribution(entry: Any) -> str:
    return entry.dist.name if getattr(entry, "dist", None) is not None else ""


def warn_left_out(what: str, error: BaseException) -> None:
    """Warn that something of a third party is left out, and why."""
    warnings.warn(f"{what} is left out: {describe_error(error)}", stacklevel=3)
