"""Slots: the named places in the words of a page, and the functions that fill them.

Note: words are data
--------------------
Rationale. The words of a study stand in a Markdown file beside its grid and change without Python.
Its results stand in records and change with every run.

Approach. The words have places such as ``{gap-table}``. A table of the study's file or a function
that is registered under the name of the place fills it from the records alone. It returns Markdown,
or an empty text if the records have nothing to show. A section whose places are all empty is left
out with its heading.

Limits. A name in braces that no function is registered for is an error, so other braces of that
form cannot be written outside of code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from evaluation.report.cases import Case, cases_of
from evaluation.study.record import Record
from planners.errors import GaplessError, near_names

PLACE = re.compile(r"\{([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\}")
HEADING = re.compile(r"#{1,6} ")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


def fill_template(words: str, fillers: Mapping[str, Callable[[], str]], where: Path | str) -> str:
    """Return the words with every place filled, each filler called once."""
    filled: dict[str, str] = {}

    def filled_place(found: re.Match[str]) -> str:
        name = found[1]
        if name not in fillers:
            raise GaplessError(f"{where}: no slot is called {name!r}; {near_names(name, fillers)}")
        if name not in filled:
            filled[name] = fillers[name]().strip("\n")
        return filled[name]

    sections = []
    for section in sections_of(words):
        # Every second part is code, which stays as it is.
        parts = CODE.split(section)
        names = [name for part in parts[::2] for name in PLACE.findall(part)]
        parts[::2] = [PLACE.sub(filled_place, part) for part in parts[::2]]
        if not names or any(filled[name] for name in names) or section.startswith("# "):
            sections.append("".join(parts))
    return re.sub(r"\n{3,}", "\n\n", "".join(sections)).rstrip() + "\n"


def sections_of(words: str) -> list[str]:
    """Cut words before each heading; a line within code is not a heading."""
    sections = [""]
    is_code = False
    for line in words.splitlines(keepends=True):
        is_code ^= line.startswith("```")
        if HEADING.match(line) and not is_code:
            sections.append("")
        sections[-1] += line
    return sections


# Modules that register slots when they are imported.
SLOT_MODULES: Final = (
    "evaluation.report.standard_slots",
    "evaluation.tables.evidence",
)

# The module that fills the tables of a study's file. It imports this one, so it is imported late.
TABLES: Final = "evaluation.tables.filled_table"


@dataclass(frozen=True)
class PageMaterial:
    """The material from which slots are filled.

    Parameters
    ----------
    name
        Name of the study; the names of pictures begin with it.
    records
        All records of the page.
    words
        The parts of the study's file beside its grid, such as its question and its claims.
    """

    name: str
    records: Sequence[Record]
    words: Mapping[str, Any] = field(default_factory=dict)
    # Pictures that slots drew: by file name, as PNG or SVG.
    pictures: dict[str, bytes] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The name of the study without characters that a file name may not have."""
        return re.sub(r"[^\w-]+", "-", self.name)

    @cached_property
    def cases(self) -> list[Case]:
        """The records as lines of a table."""
        return cases_of(self.records)

    @cached_property
    def frames(self) -> Any:
        """The frames of its tables, ``evaluation.tables.filled_table.Frames``."""
        return import_module(TABLES).Frames(self)

    def picture(self, name: str, data: bytes, says: str, suffix: str = "png") -> str:
        """Keep a picture, and return the Markdown that shows it.

        Parameters
        ----------
        name
            Unique among the pictures of the page.
        data
            The file.
        says
            Text in place of the picture, for readers who cannot see it.
        """
        file = f"{self.file_name}-{name}.{suffix}"
        self.pictures[file] = data
        return f"![{says}](images/{file})"


FillSlot = Callable[[PageMaterial], str]

_slots: dict[str, FillSlot] = {}


def slot(name: str) -> Callable[[FillSlot], FillSlot]:
    """Register the function that fills the slots of a name; a name can be taken once.

    Parameters
    ----------
    name
        The name in braces in the words: small letters, digits and single hyphens.

    Returns
    -------
    callable
        A decorator for a function that takes :class:`PageMaterial` and returns Markdown, or an
        empty text if the records have nothing to show.

    Raises
    ------
    GaplessError
        The name is taken or malformed.
    """
    if not PLACE.fullmatch(f"{{{name}}}"):
        raise GaplessError(f"slot {name!r}: small letters, digits and single hyphens are needed")

    def register(fill: FillSlot) -> FillSlot:
        if name in _slots:
            raise GaplessError(f"slot {name!r}: the name is taken by {_slots[name].__module__}")
        _slots[name] = fill
        return fill

    return register


def known_slots() -> Mapping[str, FillSlot]:
    """Return the functions that fill slots, by name."""
    for module in SLOT_MODULES:
        import_module(module)
    return _slots


def fill(words: str, material: PageMaterial, where: Path | str) -> str:
    """Return the words with every slot filled, each function called once.

    Parameters
    ----------
    words
        Markdown with slots.
    material
        Material of the slots; it takes the pictures.
    where
        File of the words, for the message of an error.

    Returns
    -------
    str
        Markdown, without the sections whose slots are all empty.

    Raises
    ------
    GaplessError
        A slot has no function, or the records contradict each other.
    """
    fillers = {name: partial(fill_slot, material) for name, fill_slot in known_slots().items()}
    return fill_template(words, {**fillers, **import_module(TABLES).table_fillers(material)}, where)
