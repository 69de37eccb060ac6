"""The Python blocks of every page run, in order and in one namespace a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.repository import ROOT

DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks_of(page: Path) -> list[tuple[int, str]]:
    """Return line and code of each Python block of a page."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, match.start(1)) + 1, match[1]) for match in BLOCK.finditer(text)]


def run_page(page: Path) -> None:
    namespace: dict[str, Any] = {"__name__": page.stem}
    for line, code in blocks_of(page):
        try:
            # Blank lines in front make tracebacks and syntax errors show the line of the page.
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
        except Exception as error:
            raise AssertionError(
                f"{page.name}, block at line {line}: {type(error).__name__}: {error}\n{code}"
            ) from error


PAGES = sorted(page for page in DOCS.glob("**/*.md") if blocks_of(page))


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path) -> None:
    run_page(page)


@pytest.mark.parametrize("wrong", ["1 / 0", "assert False", "raise ValueError", "x ="])
def test_a_failing_block_is_named(tmp_path: Path, wrong: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"text\n```python\nx = 1\n```\nmore\n\n```python\n{wrong}\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md, block at line 8"):
        run_page(page)
