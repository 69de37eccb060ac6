"""The one family of errors that Gapless raises for what a user can mend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from planners.text.plain_text import printable

# What was found in a file may be long, and a message quotes it.
MAX_MESSAGE_CHARACTERS = 2000


class GaplessError(Exception):
    """Something the user can mend; the message is one line of bounded length that says how."""

    def __init__(self, message: object = "") -> None:
        super().__init__(_one_line(str(message)))


class InstanceError(GaplessError):
    """A file or a problem breaks a rule of the model."""


class UnknownPlannerError(GaplessError):
    """No registered planner has this name, or it has no such parameter."""


class InvalidPlanError(GaplessError):
    """A plan breaks a constraint of its problem."""


class InvalidOrderError(GaplessError):
    """An order breaks an arc of its graph, or changes more than the order of nodes."""


class DeviceError(GaplessError):
    """A device, or its driver, refused a call; the message names the call and its error."""


class MissingDependencyError(GaplessError, ImportError):
    """An optional package, or the compiled core, is not installed."""


@contextmanager
def errors_at(where: object) -> Iterator[None]:
    """Say of what is wrong with an instance or a plan where that is: in which file, say."""
    try:
        yield
    except (InstanceError, InvalidPlanError) as error:
        raise type(error)(f"{where}: {error}") from None


def _one_line(text: str) -> str:
    """Return a text without its middle where it is long, and without what moves a terminal."""
    if len(text) > MAX_MESSAGE_CHARACTERS:
        end = MAX_MESSAGE_CHARACTERS // 4
        text = f"{text[: MAX_MESSAGE_CHARACTERS - end - 5]} ... {text[-end:]}"
    return printable(text)


def near_names(name: str, known: Iterable[str]) -> str:
    """Return the part of a message that names what the user may have meant.

    Parameters
    ----------
    name
        What the user wrote.
    known
        Every name that would have been accepted.

    Returns
    -------
    str
        ``"did you mean 'a' or 'b'?"``, or the list of what exists when nothing is near.
    """
    candidates = sorted(known)
    near = get_close_matches(name, candidates, n=3, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(repr(candidate) for candidate in near) + "?"
    return "known: " + ", ".join(candidates)
