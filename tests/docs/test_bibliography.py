"""Sources are cited by authors and year, and the bibliography has each of them."""

from __future__ import annotations

import re

from tests.repository import ROOT

SUFFIXES = {".py", ".h", ".cpp", ".cu", ".md", ".toml"}
FOLDERS = ("planners", "instances", "gpu_runtime", "evaluation", "tests", "docs")
NAME = r"[A-Z]\w+"
# What is on the page in bold, as in "**Lamprou et al. 2023.**".
ENTRY = re.compile(rf"^\*\*({NAME}(?: et al\.| and {NAME})? \d{{4}})\.\*\*", re.MULTILINE)
# With or without a year: a citation without one is found, and has no entry.
SEVERAL_AUTHORS = re.compile(rf"{NAME} et al\.(?: \d{{4}})?")
TWO_AUTHORS = re.compile(rf"{NAME} and {NAME} (?:19|20)\d\d")
# Where a text goes on in the next line, with the mark of a comment.
NEXT_LINE = re.compile(r"\n[ \t]*(?://|#|\*)?[ \t]*")


def citations_of(text: str) -> set[str]:
    text = NEXT_LINE.sub(" ", text)
    return {*SEVERAL_AUTHORS.findall(text), *TWO_AUTHORS.findall(text)}


def test_every_citation_has_its_entry() -> None:
    entries = ENTRY.findall((ROOT / "docs" / "bibliography.md").read_text(encoding="utf-8"))
    assert len(entries) == len(set(entries))
    pages = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    missing = {
        f"{path.relative_to(ROOT)}: {citation}"
        for path in [ROOT / "README.md", *pages]
        if path.suffix in SUFFIXES and path.name != "test_bibliography.py"
        for citation in citations_of(path.read_text(encoding="utf-8"))
        if citation not in entries
    }
    assert missing == set()


def test_citations_are_found() -> None:
    text = "    # after Lee et al.\n    # 2019 and You et al.\n// Joslin and\n// Clements 1999"
    assert citations_of(text) == {"Lee et al. 2019", "You et al.", "Joslin and Clements 1999"}
