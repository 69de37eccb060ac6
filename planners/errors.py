"""The one family of errors that Gapless raises for mistakes that a user can correct."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from planners.text.plain_text import printable

# Limit of a value from a file that a message quotes.
MAX_MESSAGE_CHARACTERS = 2000

MOST_NEAR = 3
# Likeness as difflib defines it: two wrong letters of eight are a typo, four are another word.
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


class InvalidCertificateError(GaplessError):
    """A certificate does not prove its bound; the message names the part that does not hold."""


class InvalidOrderError(GaplessError):
    """An order breaks an arc of its graph, or changes more than the order of nodes."""


class DeviceError(GaplessError):
    """A device, or its driver, refused a call; the message names the call and its error."""


class MissingDependencyError(GaplessError, ImportError):
    """An optional package, or the compiled core, is not installed.

    Parameters
    ----------
    message
        The missing package, and the reason to need it.
    extra
        The extra of Gapless that has it, if one does; the message then ends with the command.
    """

    def __init__(self, message: object = "", extra: str = "") -> None:
        super().__init__(f"{message}: {install_command(extra)}" if extra else message)


def install_command(extra: str = "") -> str:
    """Return the command that installs Gapless' dependencies, or an extra, anywhere."""
    return f"pip install 'gapless[{extra}]'" if extra else "pip install gapless"


@contextmanager
def errors_at(where: object) -> Iterator[None]:
    """Put the place, such as a file, in front of errors about an instance or a plan."""
    try:
        yield
    except (InstanceError, InvalidPlanError) as error:
        raise type(error)(f"{where}: {error}") from None


def _one_line(text: str) -> str:
    """Return a text without control characters, and if it is long without its middle."""
    if len(text) > MAX_MESSAGE_CHARACTERS:
        end = MAX_MESSAGE_CHARACTERS // 4
        text = f"{text[: MAX_MESSAGE_CHARACTERS - end - 5]} ... {text[-end:]}"
    return printable(text)


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three known names that a name may be a typo or an abbreviation of."""
    candidates = list(known)
    near = get_close_matches(name, candidates, MOST_NEAR, LEAST_LIKENESS)
    is_word = len(name) >= LEAST_ABBREVIATION
    return near or [its for its in candidates if is_word and name in its][:MOST_NEAR]


def near_names(name: str, known: Iterable[str]) -> str:
    """Return ``"did you mean 'a' or 'b'?"``, or the list of known names if none is near."""
    candidates = sorted(known)
    near = close_names(name, candidates)
    if near:
        return "did you mean " + " or ".join(repr(candidate) for candidate in near) + "?"
    return "known: " + ", ".join(candidates)
