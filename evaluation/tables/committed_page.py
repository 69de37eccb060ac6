"""Figures of a page that was measured on a GPU and is committed, read from its tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.tables.record_frame import frame_of
from planners.errors import GaplessError, near_names

if TYPE_CHECKING:
    from pandas import DataFrame

PAGES = Path(__file__).parents[2] / "docs" / "benchmarks"


def frame_of_page(page: str, heading: str) -> DataFrame:
    """Return the first table below a heading of a page, with numbers where its cells show some."""
    rows = rows_of(page, heading)
    frame = frame_of([{name: _value(text) for name, text in row.items()} for row in rows])
    return frame.assign(first_bold=_first_bold_of(page))


def rows_of(page: str, heading: str) -> list[dict[str, str]]:
    """Return the rows of the first table below a heading of a page, each by column."""
    lines = _text_of(page).splitlines()
    headings = [line.lstrip("# ") for line in lines if line.startswith("#")]
    if heading not in headings:
        raise GaplessError(f"{page}: no heading is {heading!r}; {near_names(heading, headings)}")
    table: list[list[str]] = []
    is_below = False
    for line in lines:
        if line.startswith("#"):
            is_below = line.lstrip("# ") == heading
        elif is_below and line.startswith("|"):
            table.append([cell.strip(" *") for cell in line.strip("|").split("|")])
        elif table:
            break
    if len(table) < 3:
        raise GaplessError(f"{page}: a table is needed below {heading!r}, found none")
    columns, _, *rows = table
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _first_bold_of(page: str) -> float:
    """Return the number that stands first in bold outside of tables; unknown without one."""
    found = re.search(r"^[^|\n]*?\*\*([\d.,]+)[^*\n]*\*\*", _text_of(page), re.MULTILINE)
    return float("nan") if found is None else float(found[1].replace(",", ""))


def _text_of(page: str) -> str:
    path = PAGES / page
    if not path.is_file():
        raise GaplessError(f"{path}: the page is needed, found none; run from a checkout")
    return path.read_text(encoding="utf-8")


def _value(text: str) -> float | str:
    try:
        return number_of(text)
    except GaplessError:
        return text


def number_of(text: str) -> float:
    """Return the number that a cell shows; a percentage as a share."""
    digits = text.replace(",", "").rstrip("%").strip()
    try:
        value = float(digits)
    except ValueError:
        raise GaplessError(f"a number is needed in a cell, found {text!r}") from None
    return value / 100 if text.endswith("%") else value
