"""Words with slots become a page: slots are filled, unknown ones named, empty sections left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evaluation.pages.page_material import PageMaterial
from evaluation.pages.slots import PLACE, fill, fillers_of
from evaluation.pages.written_report import REPORT_WORDS
from evaluation.study.study_file import FOLDER, find_study
from planners.errors import GaplessError
from tests.evaluation.study.made_up_records import record

WORDS = {
    "texts": {"full": "of {any_value(study)}"},
    "tables": {"empty": {"sql": "FROM runs WHERE false", "columns": [["a", "{run}"]]}},
}
MATERIAL = PageMaterial("made-up", [record("a", "greedy")], WORDS)


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("{full}\n\nand {full}.\n", "of made-up\n\nand of made-up.\n"),
        (
            "`{full}` is {full}\n\n```\n# {full}\n```\n",
            "`{full}` is of made-up\n\n```\n# {full}\n```\n",
        ),
        (
            "# Title\n\n{empty}\n\n## Gone\n\nWords.\n\n{empty}\n\n## Stays\n\nNo place.\n\n"
            "## Half\n\n{empty}\n\n{full}\n",
            "# Title\n\n## Stays\n\nNo place.\n\n## Half\n\nof made-up\n",
        ),
    ],
    ids=["every-place", "code-stays", "empty-sections-go"],
)
def test_fills_words(words: str, page: str) -> None:
    assert fill(words, MATERIAL, "x") == page


def test_an_unknown_place_is_named_with_near_ones() -> None:
    with pytest.raises(GaplessError, match=r"x\.md: no slot is called 'gap-tabel'.*gap-table"):
        fill("{gap-tabel}", MATERIAL, "x.md")


@pytest.mark.parametrize(
    "words", [REPORT_WORDS, *sorted(FOLDER.glob("*.md"))], ids=lambda path: path.stem
)
def test_every_place_in_the_words_that_ship_can_be_filled(words: Path) -> None:
    page = find_study(words.stem).page if words.parent == FOLDER else {}
    text = words.read_text(encoding="utf-8")
    assert set(re.findall(PLACE, text)) <= fillers_of(PageMaterial("", [], page)).keys()
