"""The picture of bytes in use and reserved bytes: a line each, and no peak lost."""

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


def test_each_allocator_has_a_line_and_a_label_from_the_most_to_the_least() -> None:
    rows = (
        row("first", np.array([1, 5, 2]) * MIB), OnlineRow("failed", None, "why"),
        row("second", np.array([1, 8, 2]) * MIB),
    )  # fmt: skip
    (axes,) = memory_figure(run(*rows)).axes
    assert [text.get_text() for text in axes.texts] == [
        "reserved by second: 8.000 MiB", "reserved by first: 5.000 MiB", "in use: 2.500 MiB",
    ]  # fmt: skip
    first, second = axes.lines
    assert [np.max(np.asarray(line.get_ydata())) for line in (first, second)] == [5, 8]
    assert axes.texts[0].get_color() == second.get_color() != first.get_color()


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
