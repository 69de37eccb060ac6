"""A page whose words stand in a Markdown file, with places for measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evaluation.report.slots import fill_template
from evaluation.study.surroundings import measured_now
from planners.text.table import Row, Table, columns_of

WORDS = Path(__file__).parent / "words"


@dataclass(frozen=True)
class WordedPage:
    """The texts that fill the places of a page."""

    # Name of the file of its words.
    name: str
    # The command that makes this page.
    command: str
    # Markdown by the name of the place; empty if there is nothing to show.
    figures: Mapping[str, str]
    # Date and machine of earlier measurements; empty for measurements of now.
    measured: str = ""

    def render(self) -> str:
        """Return the page as Markdown."""
        path = WORDS / f"{self.name}.md"
        made = {"command": f"`{self.command}`", "measured": self.measured or measured_now()}
        fillers = {name: partial(str, text) for name, text in (made | dict(self.figures)).items()}
        return fill_template(path.read_text(encoding="utf-8"), fillers, path)


def table_of(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, the first column aligned left and the others right; empty without rows."""
    table = Table(columns_of(*headings), [Row(list(row)) for row in rows])
    return table.markdown() if rows else ""
