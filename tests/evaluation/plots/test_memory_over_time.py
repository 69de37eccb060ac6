"""The picture of reserved and allocated bytes: a panel each, and no peak lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evaluation.plots.memory_over_time import (
    MOST_POINTS,
    draw_memory_over_time,
    memory_figure,
    thinned,
)
from planners.errors import GaplessError
from planners.model.columns import IntColumn
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.online.online_run import OnlineRow, OnlineRun

MIB = 1 << 20


def run(*rows: OnlineRow) -> OnlineRun:
    none = np.empty(0, dtype=np.int64)
    requests = RequestSequence("one", none, none, none, none, none)
    return OnlineRun(requests, OnlineTerms(has_series=True), rows)


def row(label: str, reserved: IntColumn) -> OnlineRow:
    peak = int(reserved.max())
    return OnlineRow(
        label,
        OnlineResult(
            peak // 2, peak // 2, peak, {}, 1.0, reserved=reserved, allocated=reserved // 2
        ),
    )


def test_each_allocator_has_a_panel_with_its_peaks() -> None:
    rows = (
        row("first", np.array([1, 5, 2]) * MIB), OnlineRow("failed", None, "why"),
        row("second", np.array([1, 8, 2]) * MIB),
    )  # fmt: skip
    panels = memory_figure(run(*rows)).axes
    assert [axes.get_title(loc="left") for axes in panels] == [
        "first  ·  reserved 5.000 MiB, allocated 2.500 MiB, efficiency 50.0 %",
        "second  ·  reserved 8.000 MiB, allocated 4.000 MiB, efficiency 50.0 %",
    ]
    assert panels[0].get_ylim() == panels[1].get_ylim()
    assert panels[0].get_ylim()[1] > 8


@pytest.mark.parametrize("count", [1, MOST_POINTS, MOST_POINTS + 1, 7 * MOST_POINTS + 3])
def test_thinning_keeps_the_most_of_each_stretch(count: int) -> None:
    series = np.random.default_rng(count).integers(0, 1000, count)
    first, most = thinned(series)
    assert len(first) <= MOST_POINTS
    ends = [*first[1:].tolist(), count]
    assert most.tolist() == [
        series[begin:end].max() for begin, end in zip(first.tolist(), ends, strict=True)
    ]


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GaplessError, match="no allocator has served anything"):
        draw_memory_over_time(run(OnlineRow("failed", None, "why")), tmp_path / "x.png")
