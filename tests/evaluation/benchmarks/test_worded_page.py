"""Words and figures make a page, and the words that ship are those of the committed pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.benchmarks import worded_page
from evaluation.benchmarks.worded_page import WORDS, WordedPage, table_of
from evaluation.report.slots import PLACE, sections_of
from planners.errors import GaplessError
from tests.repository import ROOT


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(worded_page, "WORDS", tmp_path)
    path = tmp_path / "a-page.md"
    path.write_text("# Title\n\nBy {command} on {measured}.\n\n## Some\n\nIt is {some}.\n")
    return path


@pytest.mark.usefixtures("words")
def test_figures_stand_in_their_places() -> None:
    page = WordedPage("a-page", "run it", {"some": "5 s"}, "Monday; a machine")
    assert page.render() == (
        "# Title\n\nBy `run it` on Monday; a machine.\n\n## Some\n\nIt is 5 s.\n"
    )


@pytest.mark.usefixtures("words")
def test_a_section_without_figures_goes() -> None:
    assert WordedPage("a-page", "run it", {"some": ""}, "now").render() == (
        "# Title\n\nBy `run it` on now.\n"
    )


def test_a_page_says_when_it_is_written_where_nothing_else_is_known(words: Path) -> None:
    assert "; Python 3" not in words.read_text()
    assert "; Python 3" in WordedPage("a-page", "run it", {"some": ""}).render()


@pytest.mark.usefixtures("words")
def test_a_place_without_a_figure_is_an_error() -> None:
    with pytest.raises(GaplessError, match=r"a-page\.md: no slot is called 'some'"):
        WordedPage("a-page", "run it", {}).render()


def test_a_table_without_rows_is_nothing() -> None:
    assert table_of(["a", "b"], []) == ""
    assert table_of(["a", "b"], [["x", "1"]]).splitlines()[-1] == "| x | 1 |"


@pytest.mark.parametrize("path", sorted(WORDS.glob("*.md")), ids=lambda path: path.stem)
def test_committed_pages_say_what_the_words_say(path: Path) -> None:
    # What was measured on two GPUs stands on a page of its own.
    pages = sorted((ROOT / "docs" / "benchmarks").glob(f"{path.stem}*.md"))
    assert pages
    page = in_one_line("\n".join(each.read_text(encoding="utf-8") for each in pages))
    for section in sections_of(path.read_text(encoding="utf-8")):
        heading = in_one_line(PLACE.split(section.partition("\n")[0])[0])
        assert heading in page
        for fixed in map(in_one_line, PLACE.split(section)[::2]):
            assert fixed in page, fixed
