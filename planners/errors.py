"""The one family of errors that Gapless raises for what a user can mend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from planners.text.plain_text import printable

# Limit of a value from a file that a message quotes.
MAX_MESSAGE_CHARACTERS = 2000

MOST_NEAR = 3
# Of difflib: two wrong letters of eight are a slip, four are another word.
LEAST_LIKENESS = 0.7
LEAST_ABBREVIATION = 3


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
    """An optional package, or the compiled core, is not installed.

    Parameters
    ----------
    message
        What is needed, and why.
    extra
        The extra of Gapless that has it, if one does; the message then ends with the command.
    """

    def __init__(self, message: object = "", extra: str = "") -> None:
        super().__init__(f"{message}: {install_command(extra)}" if extra else message)


def install_command(extra: str = "") -> str:
    """Return what installs Gapless' dependencies, or an extra, in a checkout and anywhere else."""
    return f"pip install 'gapless[{extra}]'" if extra else "pip install gapless"


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


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three names of which one is a slip of the pen or an abbreviation."""
    candidates = list(known)
    near = get_close_matches(name, candidates, MOST_NEAR, LEAST_LIKENESS)
    is_word = len(name) >= LEAST_ABBREVIATION
    return near or [its for its in candidates if is_word and name in its][:MOST_NEAR]


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
    near = close_names(name, candidates)
    if near:
        return "did you mean " + " or ".join(repr(candidate) for candidate in near) + "?"
    return "known: " + ", ".join(candidates)
