"""Text from outside, made fit to print or for a CSV cell: bounded, without control characters."""

from __future__ import annotations

import re
import reprlib

MOST_CHARACTERS = 1000

# Escapes that terminals obey: control sequences (colours, the cursor), and commands such as a new
# title.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)


def one_line(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return foreign text in a form that is safe in a table, a message or a log."""
    # Only the head is processed: a text may have gigabytes.
    head = text[: 4 * most]
    plain = _ESCAPES.sub("", head)
    plain = "".join(letter if letter.isprintable() else " " for letter in plain)
    plain = " ".join(plain.split())
    if len(plain) <= most and len(head) == len(text):
        return plain
    return plain[: most - 3] + "..."


def printable(text: str) -> str:
    """Return a whole text on one line, with an escape for each control character."""
    if text.isprintable():
        return text
    return "".join(
        sign
        if sign.isprintable()
        else " "
        if sign.isspace()
        else sign.encode("unicode_escape").decode()
        for sign in text
    )


def text_of(value: object) -> str:
    """Return the text of an object as one line, also if its ``__str__`` raises an error."""
    try:
        return one_line(value if isinstance(value, str) else str(value))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "an object whose text cannot be shown"


def describe_error(error: BaseException) -> str:
    """Return the class name and the message of an error as one line."""
    kind = type(error).__name__
    said = text_of(error)
    return one_line(f"{kind}: {said}" if said else kind)


def shown(value: object) -> str:
    """Return a found value as a message shows it: on one line, cut if it is long or deep."""
    return " ".join(_SHORT.repr(value).split())


class _ShortRepr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxstring = self.maxother = 60

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002
        # Python refuses to write out whole numbers of many digits.
        return repr(x) if x.bit_length() <= 128 else f"a whole number of {x.bit_length()} bits"


_SHORT = _ShortRepr()


# Spreadsheets take such a beginning for a formula, unless a number follows a sign.
_FORMULA = re.compile(r"\s*(?:[=@]|[+-](?!\d+(\.\d+)?$))|[\t\r]")


def csv_cell(text: str) -> str:
    """Return text from outside behind an apostrophe, where a spreadsheet would run it."""
    return f"'{text}" if _FORMULA.match(text) else text


class Markdown(str):
    """Text that is Markdown already, of our own or escaped; tables write it as it is."""


# Characters that begin markup in a line of Markdown, HTML included. An underline behind a letter
# begins none.
_MARKUP = re.compile(r"[\\|*\[`~]|<(?=[a-zA-Z/!?])|&(?=[#\w])|(?<![^\W_])_")


def markdown_text(text: str) -> Markdown:
    """Return text from outside with its markup escaped, for a line or a table of Markdown."""
    if isinstance(text, Markdown):
        return text
    return Markdown(_MARKUP.sub(r"\\\g<0>", one_line(text)))
