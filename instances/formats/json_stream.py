"""Lists and objects gone through entry by entry; of long JSON, memory holds one value at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from planners.errors import InstanceError
from planners.files.file_limits import MAX_TEXT_BYTES
from planners.text.plain_text import shown

_SPACE = re.compile(r"[ \t\n\r]*")


class PlainStream:
    """Goes through lists and dictionaries that are in memory."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @property
    def is_list(self) -> bool:
        """True if the next value is a list."""
        return isinstance(self._value, list)

    def entries(self, where: str) -> Iterator[None]:
        """Stand before each entry of a list."""
        if not self.is_list:
            raise InstanceError(f"{where}: a list is needed, found {shown(self._value)}")
        for value in self._value:
            self._value = value
            yield

    def fields(self) -> Iterator[str]:
        """Stand before the value of each field of a dictionary."""
        if not isinstance(self._value, dict):
            raise InstanceError(f"a dictionary is needed, found {shown(self._value)}")
        for name, value in self._value.items():
            self._value = value
            yield name

    def value(self) -> Any:
        """Return the next value."""
        return self._value


class JsonStream:
    """Goes through a text in the same way, and decodes the values that its user asks for."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._decoded = codecs.iterdecode(pieces, "utf-8")
        self._decoder = json.JSONDecoder()
        # Text from which nothing before `_at` is needed any more, and its length in all.
        self._text, self._at, self._dropped = "", 0, 0

    def peek(self) -> str:
        """Return the next character that is not a space; empty at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more():
                return ""

    @property
    def is_list(self) -> bool:
        """True if the next value is a list."""
        return self.peek() == "["

    def entries(self, where: str) -> Iterator[None]:
        """Stand before each entry of a list; the user goes through it, or asks for its value."""
        yield from self._items("[", "]", f"{where}: a list")

    def fields(self) -> Iterator[str]:
        """Stand before the value of each field of an object."""
        for _ in self._items("{", "}", "a dictionary"):
            if self.peek() != '"':
                self._refuse("a name in quotes")
            name: str = self.value()
            self._take(":")
            yield name

    def value(self) -> Any:
        """Decode the next value."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._read_more():
                    self._refuse(f"whole JSON ({error.msg})")
                continue
            except RecursionError:
                raise InstanceError("the JSON text is nested too deeply") from None
            except ValueError:
                raise InstanceError("the JSON text has a number of too many digits") from None
            # A number may go on behind the text that is here.
            if end < len(self._text) or not self._read_more():
                self._at = end
                return value

    def require_end(self) -> None:
        """Refuse text behind the last value."""
        if self.peek():
            self._refuse("the end of the text")

    def _items(self, begin: str, end: str, kind: str) -> Iterator[None]:
        if self.peek() != begin:
            self._refuse(kind)
        self._at += 1
        if self.peek() != end:
            yield
            while self.peek() == ",":
                self._at += 1
                yield
        self._take(end)

    def _take(self, sign: str) -> None:
        if self.peek() != sign:
            self._refuse(f"'{sign}'")
        self._at += 1

    def _read_more(self) -> bool:
        """Drop the text read so far, and at least double the rest; False at the end of the text."""
        rest = self._text[self._at :]
        if len(rest) > MAX_TEXT_BYTES:
            raise InstanceError(f"values of at most {MAX_TEXT_BYTES} characters are read")
        pieces, wanted = [rest], max(len(rest), 1)
        try:
            while wanted > 0 and (piece := next(self._decoded, "")):
                pieces.append(piece)
                wanted -= len(piece)
        except UnicodeDecodeError as error:
            raise InstanceError(f"the file is not UTF-8 text: {error.reason}") from None
        self._dropped += self._at
        self._text, self._at = "".join(pieces), 0
        return len(pieces) > 1

    def _refuse(self, needed: str) -> NoReturn:
        found = shown(self._text[self._at : self._at + 20]) if self.peek() else "its end"
        raise InstanceError(f"character {self._dropped + self._at}: {needed} is needed, "
                            f"found {found}")  # fmt: skip
