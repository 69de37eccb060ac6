"""Each figure of the page of results stands on the page that its row links to."""

from __future__ import annotations

import re

import pytest

from evaluation.study.study_file import studies
from tests.repository import ROOT

DOCS = ROOT / "docs"
PAGE = (DOCS / "results.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d[\d,.]*\d|\d")
FIGURE = re.compile(r"\| \[(\d+)\]\((\S+)\) \| [^|]+ \| ([^|]+) \| ([^|]+) \|")
FIGURES = FIGURE.findall(PAGE)
PAGES = [
    f"{folder}/{path.name}"
    for folder in ("studies", "benchmarks")
    for path in sorted((DOCS / folder).glob("*.md"))
]
STARTED = {*studies(), "report"}


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of every row of every table, without marks."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in lines]


def lines_of(page: str) -> list[str]:
    return (DOCS / page).read_text(encoding="utf-8").splitlines()


def stands(clause: str, line: str) -> bool:
    """Return True if a line has each number and each quoted name of a clause."""
    names = re.findall(r"`([^`]+)`", clause)
    numbers = NUMBER.findall(re.sub(r"`[^`]+`", "", clause))
    return set(numbers) <= set(NUMBER.findall(line)) and all(name in line for name in names)


@pytest.mark.parametrize(("number", "page", "figure", "records"), FIGURES)
def test_a_figure_stands_on_its_page(number: str, page: str, figure: str, records: str) -> None:
    lines = lines_of(page)
    for clause in figure.split(";"):
        if "see below" not in clause:
            assert NUMBER.search(clause), f"figure {number} has no number: {clause}"
            assert any(stands(clause, line) for line in lines), f"not on {page}: {clause}"
    made = next(line for line in lines if line.startswith("Made by"))
    commits = set(re.findall(r"commit (\w{12}(?:\+changes)?)", made))
    assert {*records.split(", ")} == {*re.findall(r"20\d\d-\d\d-\d\d", made), *commits}


def test_a_moved_number_is_seen() -> None:
    line = "| **auto** | 68 | 2.306 % (59.869 %) | 0.443 % |"
    assert stands("`auto` is 0.443 % above, 2.306 % at worst", line)
    assert not stands("`auto` is 0.443 % above, 2.30 % at worst", line)
    assert not stands("`cp-sat` is 0.443 % above", line)


def test_reserved_bytes_of_recordings_are_those_of_their_page() -> None:
    heading, *rows = (row for row in rows_of(PAGE) if len(row) == 8)
    measured = {tuple(row[:2]): row for row in rows_of("\n".join(lines_of("studies/replays.md")))}
    assert len(rows) == 6
    for recording, live, *reserved in rows[1:]:
        for allocator, number in zip(heading[2:], reserved, strict=True):
            assert measured[recording, allocator][2].strip("* ") == number
        assert measured[recording, "planned"][3] == live


def test_programs_are_as_on_their_pages() -> None:
    _, *rows = (row for row in rows_of(PAGE) if len(row) == 7)
    heading, *page = rows_of("\n".join(lines_of("benchmarks/programs.md")))
    columns = ("live", "default", "expandable", "planned", "to faster", "in the allocator")
    shown = [heading.index(column) for column in columns]
    measured = {
        row[0]: [row[column] for column in shown] for row in page if len(row) == len(heading)
    }
    assert len(rows) == 15
    for program, *numbers in rows[1:]:
        assert numbers == measured[program]


@pytest.mark.parametrize("page", PAGES)
def test_the_command_of_a_page_is_there(page: str) -> None:
    (made,) = (line for line in lines_of(page) if line.startswith("Made by"))
    assert re.search(r"commit (?:\w{12}|unknown)", made), made
    commands = re.findall(r"`python -m evaluation\.study ([^`]+)`", made)
    named = re.findall(r"study `([\w-]+)`", made)
    assert commands or named
    for words in commands:
        assert STARTED & set(words.split()), made
    assert set(named) <= STARTED


def test_every_figure_has_a_command() -> None:
    numbers = [int(number) for number, *_ in FIGURES]
    assert numbers == list(range(1, 13))
    _, _, commands = PAGE.partition("## Make a figure again")
    made = [int(one) for row in rows_of(commands)[2:] for one in row[0].split(", ")]
    assert made == numbers
    for command in re.findall(r"`(python -m evaluation\.study run [^`]+)`", commands):
        assert command.split()[-1] in studies()
