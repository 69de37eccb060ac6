"""What the figures of a report show, from records of which everything is known."""

from __future__ import annotations

import io

import pytest
from matplotlib.image import imread

from evaluation.report.anytime_figure import anytime_curves, anytime_figure
from evaluation.report.cases import cases_of
from evaluation.report.drawing import LINE_COLOURS, LINE_STYLES, line_looks, png_of
from evaluation.report.performance_profile import profile_figure, profile_lines
from evaluation.report.time_figure import seconds_text, time_figure, timed_points
from evaluation.study.record import Record
from tests.evaluation.study.made_up_records import record


def drawn(png: bytes) -> float:
    """Return the share of a picture that is not white."""
    return float((imread(io.BytesIO(png))[..., :3] < 0.9).any(axis=2).mean())


def records() -> list[Record]:
    return [
        record("a", "good", 10), record("a", "bad", 15), record("a", "none", None),
        record("b", "good", 22), record("b", "bad", 20), record("b", "none", None),
        record("c", "none", None), record("c", "caching", 99, kind="online"),
    ]  # fmt: skip


def test_a_profile_is_the_share_of_instances_within_a_gap() -> None:
    lines = profile_lines(cases_of(records()))
    # Nobody has a plan of c, and the online allocator has no gap.
    assert {label: len(line.gaps) for label, line in lines.items()} == {
        "good": 2, "bad": 2, "none": 2,
    }  # fmt: skip
    assert list(lines) == ["good", "bad", "none"]
    assert [lines["good"].share_within(gap) for gap in (0.0, 0.09, 0.11)] == [0.5, 0.5, 1.0]
    assert [lines["bad"].share_within(gap) for gap in (0.0, 0.4, 0.5)] == [0.5, 0.5, 1.0]
    assert lines["none"].share_within(1e9) == 0
    figure = profile_figure(lines)
    assert [line.get_label() for line in figure.axes[0].get_lines()] == [
        "good (2)", "bad (2)", "none (2)",
    ]  # fmt: skip
    assert drawn(png_of(figure)) > 0.02


def test_times_are_drawn_where_they_count_on_two_logarithmic_axes() -> None:
    some = [
        record("a", "quick", tensors=10, processor_seconds=0.0),
        record("b", "quick", tensors=1000, processor_seconds=0.1),
        record("a", "slow", tensors=10, processor_seconds=5.0),
        record("a", "untimed", tensors=10, timed=False),
    ]
    points = timed_points(cases_of(some))
    assert points == {"slow": [(10, 5.0)], "quick": [(10, 1e-5), (1000, 0.1)]}
    (axes,) = time_figure(points).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.34, "12.3 s"), (0.99999, "1 s"), (0.0125, "12.5 ms"), (2e-6, "2 µs")]
)
def test_a_time_has_its_unit(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_a_curve_falls_and_lasts_until_the_run_ends() -> None:
    some = [
        record("a", "search", 12, incumbents=((0.1, 18), (0.2, 20), (0.3, 12)), wall_seconds=2.0),
        record("b", "search", 12, incumbents=((0.1, 12),)),
        record("b", "greedy", 12),
    ]
    curves = anytime_curves(cases_of(some))
    assert list(curves) == ["a", "b"]
    (curve,) = curves["a"]
    assert (curve.seconds, curve.gaps) == ([0.1, 0.3, 2.0], [0.5, 0.0, 0.0])
    figure = anytime_figure(curves)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["a", "b"]
    assert drawn(png_of(figure)) > 0.02


def test_no_two_lines_look_alike() -> None:
    count = len(LINE_COLOURS) * len(LINE_STYLES)
    looks = line_looks([str(index) for index in range(count)])
    assert len({(look["color"], look["linestyle"]) for look in looks.values()}) == count


def test_the_same_figure_has_the_same_bytes() -> None:
    lines = profile_lines(cases_of(records()))
    assert png_of(profile_figure(lines)) == png_of(profile_figure(lines))
