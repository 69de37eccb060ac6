"""Cells of CSV, which a spreadsheet may open."""

from __future__ import annotations

import re

# What spreadsheets take for the begin of a formula; a number may begin so.
_FORMULA = re.compile(r"\s*(?:[=@]|[+-](?!\d+(\.\d+)?$))|[\t\r]")


def csv_cell(text: str) -> str:
    """Return text from outside behind an apostrophe, where a spreadsheet would run it."""
    return f"'{text}" if _FORMULA.match(text) else text
