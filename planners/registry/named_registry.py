"""The registry of named entries, for planners, online allocators, file formats and models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TypeVar

from planners.errors import GaplessError, UnknownPlannerError, near_names
from planners.text.plain_text import shown

MOST_NAME_CHARACTERS = 100

Entry = TypeVar("Entry")


class Registry(dict[str, Entry]):
    """Entries by name, in the order of registration; `unknown` is raised for a name without one."""

    def __init__(self, kind: str, unknown: type[GaplessError] = UnknownPlannerError) -> None:
        super().__init__()
        # The word for an entry in messages.
        self.kind = kind
        self._unknown = unknown

    def add(self, name: str, entry: Entry) -> Entry:
        """Add an entry under a free name that the command line can write."""
        if not (
            type(name) is str
            and 0 < len(name) <= MOST_NAME_CHARACTERS
            and name.isprintable()
            and not set(name) & set(",:*?[]= ")
        ):
            raise GaplessError(
                f"{self.kind} name: letters, digits and '-' are needed, at most "
                f"{MOST_NAME_CHARACTERS}, found {shown(name)}"
            )
        # Two threads may load the same entry.
        if self.setdefault(name, entry) is not entry:
            raise GaplessError(
                f"{self.kind} name: must be free, found {name!r} registered already; choose "
                f"another name"
            )
        return entry

    def find(self, name: str) -> Entry:
        """Return the entry of a name; the error for an unknown one lists near names."""
        if name not in self:
            raise self._unknown(f"no {self.kind} is called {name!r}; {near_names(name, self)}")
        return self[name]

    def matching(self, pattern: str) -> list[Entry]:
        """Return the entries whose names match a wildcard; at least one has to."""
        found = [entry for name, entry in list(self.items()) if fnmatchcase(name, pattern)]
        if not found:
            raise self._unknown(f"no {self.kind} matches {pattern!r}; {near_names(pattern, self)}")
        return found

    def patterns_of(self, text: str) -> list[str]:
        """Return the patterns of a text in which commas separate them; at least one has to be."""
        patterns = list(filter(None, (part.strip() for part in text.split(","))))
        if not patterns:
            raise self._unknown(f"no {self.kind} named; give at least one, or '*' for all")
        return patterns

    @contextmanager
    def unchanged_on_error(self) -> Iterator[None]:
        """Undo every registration of a block that ends in an error."""
        before = dict(self)
        try:
            yield
        except BaseException:
            self.clear()
            self.update(before)
            raise
