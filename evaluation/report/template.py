"""Words with places such as ``{gap-table}``, and how they become a page.

A section whose places all come out empty goes with its heading. Code stands as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from planners.errors import GaplessError, near_names

PLACE = re.compile(r"\{([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\}")
HEADING = re.compile(r"#{1,6} ")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


def fill_template(words: str, fillers: Mapping[str, Callable[[], str]], where: Path | str) -> str:
    """Return the words with every place filled, each filler called once.

    Parameters
    ----------
    words
        Markdown with places.
    fillers
        By name of the place: returns Markdown, or an empty text where there is nothing to show.
    where
        File of the words, for what is wrong with them.

    Raises
    ------
    GaplessError
        A place has no filler.
    """
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
        # Code stands as it is: every second part.
        parts = CODE.split(section)
        names = [name for part in parts[::2] for name in PLACE.findall(part)]
        parts[::2] = [PLACE.sub(filled_place, part) for part in parts[::2]]
        if not names or any(filled[name] for name in names) or section.startswith("# "):
            sections.append("".join(parts))
    return re.sub(r"\n{3,}", "\n\n", "".join(sections)).rstrip() + "\n"


def sections_of(words: str) -> list[str]:
    """Cut words before each heading; a line of code is none."""
    sections = [""]
    is_code = False
    for line in words.splitlines(keepends=True):
        is_code ^= line.startswith("```")
        if HEADING.match(line) and not is_code:
            sections.append("")
        sections[-1] += line
    return sections
