"""The fewest processes that fit, of programs whose need is a formula."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from evaluation.plots.fewest_ranks import FEWEST_RANKS, fewest_ranks_figure
from gpu_runtime.fitting.fewest_ranks import MOST_RANKS, FewestRanks, search_fewest_ranks
from gpu_runtime.fitting.fit_answer import FitAnswer
from gpu_runtime.fitting.fit_report import fit_json, fit_table, ranks_table
from gpu_runtime.fitting.rank_fit import LIVE, RankFit
from planners.errors import InstanceError
from tests.gpu_runtime.fitting.made_fits import Need, made_fit

ROOM = 100


def sharded(ranks: int) -> int:
    return 20 + 640 // ranks


def replicated(ranks: int) -> int:
    return 640 if ranks == 1 else 700


def split_by_eight_heads(ranks: int) -> int:
    if ranks > 8:
        raise InstanceError("8 heads are not split among 16")
    return 1600 // ranks


def searched(need: Need, start: int = 1) -> FewestRanks:
    def check(values: Mapping[str, int]) -> RankFit:
        size = need(values["ranks"])
        return made_fit({LIVE: 8, "lean": size, "greedy": 2 * size}, ROOM)

    fewest = FewestRanks({start: check({"ranks": start})})
    search_fewest_ranks(fewest, check)
    return fewest


def test_it_is_doubled_until_it_fits_under_every_allocator() -> None:
    fewest = searched(sharded)
    assert list(fewest.tried) == [1, 2, 4, 8, 16, 32]
    assert (fewest.fewest("lean"), fewest.fewest("greedy"), fewest.ended) == (8, 32, "")
    table = ranks_table("ranks", {str(ranks): fit for ranks, fit in fewest.tried.items()})
    assert list(table.rows[3].cells) == ["8", "8 B", "100 B", "200 B", "fits only when planned"]
    cells = [row.cells[-1] for row in fit_table(fewest.tried[1], fewest=fewest).rows]
    assert cells == ["1", "8", "32"]


def test_a_search_that_begins_with_what_fits_knows_a_bound() -> None:
    fewest = searched(sharded, start=16)
    cells = [row.cells[-1] for row in fit_table(fewest.tried[16], fewest=fewest).rows]
    assert cells == ["<= 16", "<= 16", "32"]


@pytest.mark.parametrize(
    ("need", "most", "ended"),
    [
        (replicated, 4, "4 need as much memory as 2"),
        (split_by_eight_heads, 8, "8 heads are not split among 16"),
        (lambda ranks: 10**7 - ranks, MOST_RANKS, ""),
    ],
)
def test_it_ends_where_more_do_not_help(need: Need, most: int, ended: str) -> None:
    fewest = searched(need)
    assert (max(fewest.tried), fewest.ended) == (most, ended)
    assert fewest.fewest("lean") is None
    assert fit_table(fewest.tried[1], fewest=fewest).rows[1].cells[-1] == f"> {most:,}"


def test_json_has_every_number_and_the_picture_a_line_for_each(tmp_path: Path) -> None:
    fewest = searched(sharded)
    answer = FitAnswer([fewest.tried[1]], fewest=fewest)
    found = json.loads(fit_json(answer))["fewest_ranks"]
    assert found["fewest"] == {LIVE: 1, "lean": 8, "greedy": 32}
    assert [rows[1]["reserved_peak"] for rows in found["tried"].values()] == [
        660, 340, 180, 100, 60, 40,
    ]  # fmt: skip
    (axes, *_) = fewest_ranks_figure(fewest).axes
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert [1024 * kib for kib in lines["lean"]] == [660, 340, 180, 100, 60, 40]
    assert [1024 * kib for kib in lines["of a GPU"]] == [ROOM] * 6
    FEWEST_RANKS.draw(answer, tmp_path / "ranks.svg")
    assert "<svg" in (tmp_path / "ranks.svg").read_text(encoding="utf-8")
