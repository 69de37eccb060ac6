"""Every link of a page leads somewhere, and the index leads to every page in two steps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repository import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# Those and the pages for contributors.
ALL_PAGES = sorted({*PAGES, *ROOT.glob("*.md")})
LINK = re.compile(r"\]\(([^)]+)\)")


def links_of(page: Path) -> list[str]:
    found = LINK.findall(page.read_text(encoding="utf-8"))
    return [target for target in found if "://" not in target]


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def test_the_index_and_its_page_of_results_link_every_page() -> None:
    linked = {
        (DOCS / link.partition("#")[0]).resolve()
        for page in ("index.md", "results.md")
        for link in links_of(DOCS / page)
        if page == "index.md" or link.startswith(("studies/", "benchmarks/"))
    }
    assert sorted(linked) == sorted(page for page in PAGES if page.name != "index.md")


def test_the_index_fits_on_one_screen() -> None:
    assert len((DOCS / "index.md").read_text(encoding="utf-8").splitlines()) <= 40
