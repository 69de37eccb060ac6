"""A figure that cites a page of measurements stands on that page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation.study.study_file import find_study
from tests.repository import ROOT

DOCS = ROOT / "docs"
MEASURED = {*DOCS.glob("studies/*.md"), *DOCS.glob("benchmarks/*.md"), DOCS / "results.md"}
READERS = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]

CODE = re.compile(r"^```.*?^```|^    .*?$", re.DOTALL | re.MULTILINE)
PASSAGE = re.compile(r"\n\s*\n|\n(?=[-*] |\d+\. |#|\|)")
INTRODUCED = re.compile(r"\s*(?:[-*] |\d+\. |\|)")
LINK = re.compile(r"\]\(([^)#\s]*)[^)]*\)")
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
UNIT = r"(?: ?%| (?:[KMGT]i?B(?:/s)?|bytes|ms|us|s|seconds?|minutes?|hours?|times)\b)"
# `PyTorch 2.11 to 2.14` and `MobileNetV2` are names.
NAME = re.compile(rf"\b[A-Z][\w-]* ?{NUMBER}(?:\.\d+)*(?: to \d+\.\d+)?\b|`[^`]*`")
# Numbers with a unit (`1.4 to 2.7 times`), a share (`51 of 64`), a fraction that is no version.
FIGURE = re.compile(
    rf"(?<![\w.])(?:(?:{NUMBER}(?:,| to| and| or) )*{NUMBER}{UNIT}"
    rf"|{NUMBER} of {NUMBER}\b|\d+\.\d+(?!\.?\d))"
)
CELL = re.compile(rf"\| \**[+-]?{NUMBER}{UNIT}?\**(?= \|)")


def passages_of(text: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each paragraph, item and row of a table, and what its links lead to.

    Items and rows that a paragraph with a colon introduces have its links as well.
    """
    introduced: set[str] = set()
    for passage in PASSAGE.split(CODE.sub("", text)):
        links = set(LINK.findall(passage))
        if INTRODUCED.match(passage):
            links |= introduced
        else:
            introduced = links if passage.rstrip().endswith(":") else set()
        yield passage.strip(), links


def figures_of(passage: str) -> set[str]:
    """Return the measured numbers of a passage, percentages with their sign."""
    text = NAME.sub("", " ".join(LINK.sub("]", passage).split()))
    figures = [*FIGURE.findall(text), *CELL.findall(text)]
    return {
        number.replace(" ", "")
        for figure in figures
        for number in re.findall(f"{NUMBER}(?: ?%)?", figure)
    }


def numbers_of(page: str) -> set[str]:
    """Return all numbers of a page, percentages with and without their sign."""
    numbers = re.findall(f"({NUMBER})( ?%)?", page)
    return {number for number, _ in numbers} | {f"{number}%" for number, sign in numbers if sign}


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.stem)
def test_a_figure_stands_on_the_page_that_is_cited(reader: Path) -> None:
    for passage, links in passages_of(reader.read_text(encoding="utf-8")):
        pages = {(reader.parent / link).resolve() for link in links if link} & MEASURED - {reader}
        measured = "\n".join(page.read_text(encoding="utf-8") for page in pages)
        # A row without a link is the copy of a row.
        is_copy = passage.startswith("|") and not LINK.search(passage)
        parts = measured.splitlines() if is_copy else [measured]
        assert not pages or any(figures_of(passage) <= numbers_of(part) for part in parts), (
            f"not on {sorted(page.stem for page in pages)}: {passage}"
        )


def test_figures_are_told_from_names_and_counts() -> None:
    text = "Of 9 runs 51 of 64 took 1.4 to 2.7 times as long as `x=3 s`, 2,048 MiB more (+0.5 %)"
    assert figures_of(text) == {"51", "64", "1.4", "2.7", "2,048", "0.5%"}
    assert not figures_of("Under PyTorch 2.11 to 2.14, Python 3.12.1 and 1.4.1 it is so")
    assert figures_of("| `a-2` | 12 | **+3.5 %** | 4 x 5 | 1,000 |") == {"12", "3.5%", "1,000"}
    assert numbers_of("| 12 | +3.5 % |") == {"12", "3.5", "3.5%"}


def test_what_a_citation_introduces_cites_it_too() -> None:
    text = "See [a](a.md#x):\n\n| 1 |\n\n- 2 [b](b.md)\n- 3\n\nSee [c](c.md).\n\n| 4 |"
    assert [sorted(links) for _, links in passages_of(text)] == [
        ["a.md"], ["a.md"], ["a.md", "b.md"], ["a.md"], ["c.md"], [],
    ]  # fmt: skip


def test_rows_of_instances_are_as_measured() -> None:
    guide = (DOCS / "choosing-a-planner.md").read_text(encoding="utf-8")
    page = (DOCS / "studies" / "gap-to-optimal.md").read_text(encoding="utf-8")
    heading, _, *chosen = _rows(_section(guide, "## How far from the least peak"))
    measured, _, *rows = _rows(_section(page, "### How near heuristics come"))
    assert heading == [
        "instance", "tensors", "Single Object: gap", "Many Objects: gap", "`pressure`: gap",
        "`auto`: gap",
    ]  # fmt: skip
    assert measured == [
        "instance", "tensors", "Single Object, best", "gap", "Many Objects, best", "gap",
        "pressure, gap", "auto, gap", "auto",
    ]  # fmt: skip
    of_these = [[row[column] for column in (0, 1, 3, 5, 6, 7)] for row in rows]
    for row in chosen:
        assert row in of_these


@pytest.mark.parametrize(
    "page", sorted((DOCS / "studies").glob("paper-*.md")), ids=lambda page: page.stem
)
def test_claims_on_a_paper_are_those_of_its_study(page: Path) -> None:
    rows = {row[0]: row for row in reversed(_rows(page.read_text(encoding="utf-8")))}
    for name, says, where, figure, *rule in find_study(page.stem).page["claims"]:
        _, *words, verdict = rows[name]
        assert words[:3] == [says, where, figure]
        decided = {"true", f"not {rule[1]}" if rule[1:] else "**false**"}
        measured = not rule[-1].startswith("not measured")
        assert verdict.partition(", on ")[0] in (decided if measured else {"not measured"})


def _rows(text: str) -> list[list[str]]:
    """Return the cells of all tables of a page."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _section(text: str, heading: str) -> str:
    """Return what stands below a heading, up to the next of the same depth."""
    _, found, below = text.partition(f"{heading}")
    assert found
    depth = heading.partition(" ")[0]
    return re.split(rf"^#{{1,{len(depth)}}} ", below, maxsplit=1, flags=re.MULTILINE)[0]
