"""Shares in a guide that cites a page of measurements stand on that page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evaluation.study.study_file import find_study
from tests.repository import ROOT

DOCS = ROOT / "docs"
SHARE = re.compile(r"\d[\d.,]* ?%")


def shares_of(text: str) -> list[str]:
    return [found.replace(" ", "") for found in SHARE.findall(text)]


@pytest.mark.parametrize(
    ("guide", "heading", "page"),
    [
        ("homosize.md", "## What the text leaves open", "studies/homosize.md"),
        ("compilers.md", "### The evidence", "studies/production-planners.md"),
        ("recording.md", "#### Nodes a stream", "studies/streams.md"),
        ("fit.md", "## Held against an H200", "studies/fit-against-reality.md"),
        ("choosing-a-planner.md", "## How far from the least peak", "studies/gap-to-optimal.md"),
    ],
)
def test_every_share_stands_on_the_page_that_is_cited(guide: str, heading: str, page: str) -> None:
    text = _section((DOCS / guide).read_text(encoding="utf-8"), heading)
    assert f"{page})" in text
    cited = shares_of(text)
    assert cited
    measured = shares_of((DOCS / page).read_text(encoding="utf-8"))
    assert not set(cited) - set(measured)


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
