"""Words with slots become a page: each filled once, unknown ones named, empty sections gone."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from evaluation.report import slots
from evaluation.report.document import REPORT_WORDS
from evaluation.report.slots import PLACE, PageMaterial, fill, known_slots, slot
from evaluation.study.study_file import FOLDER, find_study
from planners.errors import GaplessError
from tests.evaluation.study.made_up_records import record

MATERIAL = PageMaterial("made-up", [record("a", "greedy")])


@pytest.fixture(autouse=True)
def own_slots(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    calls = {"full": 0}
    monkeypatch.setattr(slots, "_slots", dict(known_slots()))

    @slot("full")
    def _full(material: PageMaterial) -> str:
        calls["full"] += 1
        return f"\nof {material.name}\n"

    @slot("empty")
    def _empty(_: PageMaterial) -> str:
        return ""

    return calls


def test_a_place_is_filled_wherever_it_stands_by_one_call(own_slots: dict[str, int]) -> None:
    assert fill("{full}\n\nand {full}.\n", MATERIAL, "x") == "of made-up\n\nand of made-up.\n"
    assert own_slots == {"full": 1}


def test_code_stands_as_it_is() -> None:
    words = "`{full}` is {full}\n\n```\n# {full}\n```\n"
    assert fill(words, MATERIAL, "x") == "`{full}` is of made-up\n\n```\n# {full}\n```\n"


def test_a_section_of_empty_places_goes_with_its_words() -> None:
    words = (
        "# Title\n\n{empty}\n\n## Gone\n\nWords.\n\n{empty}\n\n## Stays\n\nNo place.\n\n"
        "## Half\n\n{empty}\n\n{full}\n"
    )
    assert fill(words, MATERIAL, "x") == (
        "# Title\n\n## Stays\n\nNo place.\n\n## Half\n\nof made-up\n"
    )


def test_an_unknown_place_is_named_with_near_ones() -> None:
    with pytest.raises(GaplessError, match=r"x\.md: no slot is called 'gap-tabel'.*gap-table"):
        fill("{gap-tabel}", MATERIAL, "x.md")


def test_a_name_is_taken_once_and_well_formed() -> None:
    with pytest.raises(GaplessError, match="the name is taken by"):
        slot("solved-count")(lambda _: "")
    with pytest.raises(GaplessError, match="small letters, digits and single hyphens"):
        slot("Gap_table")


@pytest.mark.parametrize(
    "words", [REPORT_WORDS, *sorted(FOLDER.glob("*.md"))], ids=lambda path: path.stem
)
def test_every_place_in_the_words_that_ship_has_a_function(words: Path) -> None:
    page = find_study(words.stem).page if words.parent == FOLDER else {}
    tables = import_module(slots.TABLES).table_fillers(PageMaterial("", [], page))
    known = {*known_slots(), *tables}
    text = words.read_text(encoding="utf-8")
    assert {name for name in re.findall(PLACE, text) if name not in known} == set()
