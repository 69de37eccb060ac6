"""The largest value of one parameter by another, over needs that are a formula."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from evaluation.plots.frontier import FRONTIER, frontier_figure
from gpu_runtime.fitting.fit_answer import FitAnswer
from gpu_runtime.fitting.fit_report import fit_json, frontier_table
from gpu_runtime.fitting.frontier import Frontier, search_frontier
from gpu_runtime.fitting.largest_value import LargestValues
from gpu_runtime.fitting.rank_fit import RankFit
from planners.errors import InstanceError
from tests.gpu_runtime.fitting.made_fits import by_formula

MOST_SEQ = 1000
ROOM = 100_000


def check(values: Mapping[str, int]) -> RankFit:
    seq = values["seq"]
    if seq > MOST_SEQ:
        raise InstanceError(f"seq {seq} is too long")

    def lean(value: int) -> int:
        return 1000 + 30 * seq * value

    def greedy(value: int) -> int:
        return 1000 + 60 * seq * value

    return by_formula(ROOM, lean, greedy)(values)


def searched(seq: int) -> Frontier:
    frontier = Frontier("seq", "batch")
    labels = ("lean", "greedy")
    search_frontier(frontier, LargestValues("batch", ROOM, 1), labels, (seq, 1), check)
    return frontier


def test_it_ends_at_a_value_that_cannot_be_traced() -> None:
    frontier = searched(300)
    assert (frontier.ended, frontier.fits) == ("seq 1200 is too long", True)
    table = frontier_table(frontier)
    assert [column.heading for column in table.columns] == ["seq", "lean", "greedy"]
    assert [list(row.cells) for row in table.rows] == [["300", "11", "5"], ["600", "5", "2"]]
    with pytest.raises(InstanceError, match="seq 1001 is too long"):
        searched(1001)


def test_json_has_every_value() -> None:
    frontier = searched(300)
    fit = frontier.found[300].tried[1]
    text = fit_json(FitAnswer([fit], frontier.found[300], frontier))
    found = json.loads(text)["frontier"]
    assert (found["doubled"], found["ended"]) == ("seq", "seq 1200 is too long")
    assert {seq: one["largest"]["lean"]["value"] for seq, one in found["found"].items()} == {
        "300": 11, "600": 5, "1200": None,
    }  # fmt: skip
    assert set(found["found"]["600"]["tried"]) == set(map(str, frontier.found[600].tried))


def test_it_ends_where_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.MOST_SEQ", 1 << 20)
    frontier = searched(800)
    assert frontier.ended == ""
    assert [list(row.cells) for row in frontier_table(frontier).rows] == [
        ["800", "4", "2"], ["1,600", "2", "1"], ["3,200", "1", "none"], ["6,400", "none", "none"],
    ]  # fmt: skip
    assert not searched(6400).fits


def test_the_picture_has_a_line_for_each_allocator(tmp_path: Path) -> None:
    frontier = searched(300)
    (axes, *_) = frontier_figure(frontier).axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines == {"lean": [[300, 11], [600, 5]], "greedy": [[300, 5], [600, 2]]}
    assert [text.get_text() for text in axes.get_xticklabels()] == ["300", "600", "1,200"]
    FRONTIER.draw(FitAnswer([], frontier=frontier), tmp_path / "frontier.svg")
    assert "<svg" in (tmp_path / "frontier.svg").read_text(encoding="utf-8")
