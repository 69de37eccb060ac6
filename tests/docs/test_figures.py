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
    ],
)
def test_every_share_stands_on_the_page_that_is_cited(guide: str, heading: str, page: str) -> None:
    text = _section((DOCS / guide).read_text(encoding="utf-8"), heading)
    assert f"benchmarks/{page})" in text
    cited = shares_of(text)
    assert cited
    measured = shares_of((DOCS / "benchmarks" / page).read_text(encoding="utf-8"))
    assert not set(cited) - set(measured)


def _section(text: str, heading: str) -> str:
    """Return what stands below a heading, up to the next of the same depth."""
    _, found, below = text.partition(f"{heading}")
    assert found
    depth = heading.partition(" ")[0]
    return re.split(rf"^#{{1,{len(depth)}}} ", below, maxsplit=1, flags=re.MULTILINE)[0]
