"""A page whose records are committed has each line that they give, and no other row."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from evaluation.study.record_age import COMMITTED, PAGES
from evaluation.study.records_file import read_records
from tests.evaluation.pages.golden_pages import page_of

# The page of regression is CI's comparison.
RECORDS = [path for path in sorted(COMMITTED.glob("*.jsonl")) if path.stem != "regression"]


def made_of(records: Path) -> list[str]:
    """Return the lines of the page that records give, without pictures."""
    return page_of(records.stem, list(read_records(records))).splitlines()


def lacking(made: list[str], page: list[str]) -> list[str]:
    """Return the lines that do not stand on a page in their order; a page may say more."""
    left = iter(page)
    return [line for line in made if line not in left]


@pytest.mark.parametrize("records", RECORDS, ids=lambda path: str(path.stem))
def test_a_page_says_what_its_records_give(records: Path) -> None:
    name = f"{records.stem}.md"
    (page,) = (folder / name for folder in PAGES if (folder / name).exists())
    lines, made = page.read_text(encoding="utf-8").splitlines(), made_of(records)
    assert not lacking(made, lines)
    # No row was added to a table by hand.
    rows = {line for line in made if line.startswith("|")}
    below = {line for above, line in pairwise(lines) if above in rows and line.startswith("|")}
    assert below <= rows


def test_a_moved_figure_and_a_row_of_another_table_are_seen() -> None:
    made = ["| a |", "|---|", "| 1 |", "", "words"]
    assert not lacking(made, ["more", *made, "more"])
    assert lacking(made, ["| a |", "|---|", "| 2 |", "", "words"])
    assert lacking(made, ["words", *made[:4]])
