"""The list of the catalogue: who is chosen, and what is said of each."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from instances.catalogue.catalogue_entry import CatalogueEntry
from instances.catalogue.listing import catalogue_table, choose_entries, description, record
from planners.errors import InstanceError
from tests.instances.catalogue.entries import BEST, FACTS, entry

HARD = replace(BEST, peak=2500, status="feasible", lower_bound=2000)
CATALOGUE = {
    "bert": entry("bert"),
    "ring-1": entry("ring-1", kind="synthetic", tags=("capacity",), committed=False, best=HARD),
    "ring-2": entry("ring-2", kind="synthetic", tags=("capacity", "streams")),
}


def names(entries: list[CatalogueEntry]) -> list[str]:
    return [entry.name for entry in entries]


def test_entries_are_chosen_by_name_and_by_tag() -> None:
    assert names(choose_entries(CATALOGUE, [])) == ["bert", "ring-1", "ring-2"]
    assert names(choose_entries(CATALOGUE, ["ring-2", "b*"])) == ["bert", "ring-2"]
    assert names(choose_entries(CATALOGUE, [], ["streams"])) == ["bert", "ring-2"]
    assert names(choose_entries(CATALOGUE, [], ["open"])) == ["ring-1"]
    assert names(choose_entries(CATALOGUE, ["ring*"], ["streams", "synthetic"])) == ["ring-2"]


def test_unknown_names_and_tags_get_near_ones() -> None:
    with pytest.raises(InstanceError, match=r"no instance matches 'brt'; did you mean 'bert'"):
        choose_entries(CATALOGUE, ["brt"])
    with pytest.raises(InstanceError, match=r"no instance has the tag 'stream'; .*'streams'"):
        choose_entries(CATALOGUE, [], ["stream"])


def test_the_list_has_a_line_an_entry(tmp_path: Path) -> None:
    (tmp_path / "bert.json.gz").touch()
    heading, bert, ring, _ = catalogue_table(CATALOGUE.values(), [tmp_path]).plain().splitlines()
    assert "best known" in heading
    assert " ".join(bert.split()) == (
        "bert easy 4 2 1 4.000 KiB 2.000 KiB 2.000 KiB 0 % greedy-size-first committed a model"
    )
    assert "25.000 %" in ring
    assert "regenerated, not here" in ring


def test_a_terminal_shows_what_is_proven_in_green(tmp_path: Path) -> None:
    console = Console(width=200, record=True, file=io.StringIO(), force_terminal=True)
    console.print(catalogue_table(CATALOGUE.values(), [tmp_path]).rich(console.width))
    lines = console.export_text(styles=True).splitlines()
    proven = {entry: "\x1b[32m" in line for entry in CATALOGUE for line in lines if entry in line}
    assert proven == {"bert": True, "ring-1": False, "ring-2": True}


@pytest.mark.parametrize("width", range(40, 200, 5))
def test_no_cell_is_cut_on_a_terminal(tmp_path: Path, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(catalogue_table(CATALOGUE.values(), [tmp_path]).rich(console.width))
    headings, _, *lines = console.export_text().splitlines()
    assert len(lines) == len(CATALOGUE)
    assert "best known" in headings
    whole = "".join(line.partition("a model")[0] for line in [headings, *lines])
    assert "…" not in whole
    assert ("origin" in headings) == (width > 130)


@pytest.mark.parametrize(
    ("peak", "bound", "fits"), [(2000, 2000, "yes"), (2100, 2090, "no"), (2100, 2000, None)]
)
def test_whether_it_fits_is_said_where_it_is_known(
    tmp_path: Path, peak: int, bound: int, fits: str | None
) -> None:
    asked = entry(
        facts=replace(FACTS, capacity=2048), best=replace(BEST, peak=peak, lower_bound=bound)
    )
    lines = dict(line.split(None, 1) for line in description(asked, [tmp_path]).splitlines()[1:])
    assert lines.get("fits") == fits
    assert lines["capacity"] == "2.000 KiB (2,048)"
    assert lines["command"] == asked.command
    assert "fits" not in description(entry(), [tmp_path])


def test_a_record_holds_every_number(tmp_path: Path) -> None:
    found = record(CATALOGUE["ring-1"], [tmp_path])
    assert found["name"] == "ring-1"
    assert found["best"]["peak"] == 2500
    assert found["gap"] == pytest.approx(0.25)
    assert found["here"] is False
