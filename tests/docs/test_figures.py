"""Shares in a guide that cites a page of measurements stand on that page."""

from __future__ import annotations

import re

import pytest

from tests.repository import ROOT

DOCS = ROOT / "docs"
SHARE = re.compile(r"\d[\d.,]* ?%")


def shares_of(text: str) -> list[str]:
    return [found.replace(" ", "") for found in SHARE.findall(text)]


@pytest.mark.parametrize(
    ("guide", "heading", "page"),
    [
        ("homosize.md", "# Spatio-temporal planning", "homosize.md"),
        ("extracted-models.md", "### Nodes a stream", "density.md"),
        ("choosing-a-planner.md", "## How far from the least peak", "collection.md"),
    ],
)
def test_every_share_stands_on_the_page_that_is_cited(guide: str, heading: str, page: str) -> None:
    text = _section((DOCS / guide).read_text(encoding="utf-8"), heading)
    assert f"benchmarks/{page})" in text
    cited = shares_of(text)
    assert cited
    measured = shares_of((DOCS / "benchmarks" / page).read_text(encoding="utf-8"))
    assert not set(cited) - set(measured)


def test_rows_of_the_collection_are_as_measured() -> None:
    guide = (DOCS / "choosing-a-planner.md").read_text(encoding="utf-8")
    measured = _rows((DOCS / "benchmarks" / "collection.md").read_text(encoding="utf-8"))
    chosen = _rows(_section(guide, "## How far from the least peak"))
    assert chosen[0] == [
        "instance", "tensors", "Single Object: gap", "ms", "Many Objects: gap", "ms",
        "`auto`: gap", "s",
    ]  # fmt: skip
    heading = next(row for row in measured if row[0] == "instance")
    columns = [heading.index("tensors"), *range(heading.index("gap"), heading.index("status"))]
    assert [heading[column] for column in columns[3:]] == ["many: gap", "ms", "auto: gap", "s"]
    for name, *cells in chosen[2:]:
        assert [name, *cells] in [[row[0], *(row[c] for c in columns)] for row in measured[2:]
                                  if len(row) == len(heading)]  # fmt: skip


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
