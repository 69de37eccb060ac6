"""Slots: the named places in the words of a page, and the functions that fill them.

Note: words are data
--------------------
Rationale. The words of a study stand in a Markdown file beside its grid and change without Python.
Its results stand in records and change with every run.

Approach. The words have places such as ``{gap-table}``. A table of the study's file or a function
that has the name of the place fills it from the records alone. It returns Markdown,
or an empty text if the records have nothing to show. A section whose places are all empty is left
out with its heading.

Limits. A name in braces that no table or function has is an error, so other braces of that form
cannot be written outside of code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from evaluation.pages.evidence import CLAIM_SLOTS
from evaluation.pages.filled_table import table_fillers
from evaluation.pages.page_material import PageMaterial
from evaluation.pages.standard_slots import STANDARD_SLOTS
from planners.errors import GaplessError, near_names

PLACE = re.compile(r"\{([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\}")
HEADING = re.compile(r"#{1,6} ")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


def _filled(words: str, fillers: Mapping[str, Callable[[], str]], where: Path | str) -> str:
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
    for section in _sections_of(words):
        # Every second part is code, which stays as it is.
        parts = CODE.split(section)
        names = [name for part in parts[::2] for name in PLACE.findall(part)]
        parts[::2] = [PLACE.sub(filled_place, part) for part in parts[::2]]
        if not names or any(filled[name] for name in names) or section.startswith("# "):
            sections.append("".join(parts))
    return re.sub(r"\n{3,}", "\n\n", "".join(sections)).rstrip() + "\n"


def _sections_of(words: str) -> list[str]:
    """Cut words before each heading; a line within code is not a heading."""
    sections = [""]
    is_code = False
    for line in words.splitlines(keepends=True):
        is_code ^= line.startswith("```")
        if HEADING.match(line) and not is_code:
            sections.append("")
        sections[-1] += line
    return sections


def fill(words: str, material: PageMaterial, where: Path | str) -> str:
    """Return Markdown with every slot filled, each function called once.

    Sections whose slots are all empty are left out. ``where`` is the file, for the message of an
    error.
    """
    return _filled(words, fillers_of(material), where)


def fillers_of(material: PageMaterial) -> dict[str, Callable[[], str]]:
    """Return, by name, functions that fill the places of a page."""
    of_any_study = {**STANDARD_SLOTS, **CLAIM_SLOTS}
    fillers = {name: partial(fill_slot, material) for name, fill_slot in of_any_study.items()}
    return {**fillers, **table_fillers(material)}
