"""What the figures of a report show, from records of which everything is known."""

from __future__ import annotations

import io
from itertools import combinations

import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from evaluation.pages.cases import cases_of
from evaluation.pages.figure_texts import count_text, seconds_text
from evaluation.pages.page_material import PageMaterial
from evaluation.pages.planner_figures import (
    LEAST_GAP,
    MOST_TICKS,
    ProfileLine,
    anytime_curves,
    anytime_figure,
    profile_figure,
    profile_lines,
    time_figure,
    timed_points,
)
from evaluation.pages.standard_slots import _looks
from evaluation.plots.drawing import (
    LINE_COLOURS,
    LINE_STYLES,
    MOST_LINES,
    MOST_PANELS,
    PictureFormat,
    bytes_of,
    line_looks,
    logarithmic,
    new_figure,
)
from evaluation.study.record import Record
from planners.registry import planners
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
    figure = profile_figure(lines, line_looks(lines))
    assert [line.get_label() for line in figure.axes[0].get_lines()] == [
        "good (2)", "bad (2)", "none (2)",
    ]  # fmt: skip
    assert drawn(bytes_of(figure, "png")) > 0.02


def test_times_are_drawn_where_they_count_on_two_logarithmic_axes() -> None:
    some = [
        record("a", "quick", tensors=10, processor_seconds=0.0),
        record("b", "quick", tensors=1000, processor_seconds=0.1),
        record("a", "slow", tensors=10, processor_seconds=5.0),
        record("a", "untimed", tensors=10, timed=False),
    ]
    points = timed_points(cases_of(some))
    assert points == {"slow": [(10, 5.0)], "quick": [(10, 1e-5), (1000, 0.1)]}
    (axes,) = time_figure(points, line_looks(points)).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.34, "12.3 s"), (0.99999, "1 s"), (0.0125, "12.5 ms"), (2e-6, "2 µs")]
)
def test_a_time_has_its_unit(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(1, "1"), (500, "500"), (20_000, "20k"), (1_500_000, "1.5M"), (1e7, "10M")]
)
def test_a_count_of_an_axis_is_short(count: float, text: str) -> None:
    assert count_text(count) == text


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
    figure = anytime_figure(curves, line_looks(["search"]))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["a", "b"]
    assert drawn(bytes_of(figure, "png")) > 0.02


def test_no_two_lines_look_alike() -> None:
    # Those with a place of their own, and as many more as there are looks.
    labels = [info.name for info in planners() if info.built_in]
    assert len(labels) <= len(LINE_COLOURS) * len(LINE_STYLES)
    labels += [f"auto:budget={seconds}s" for seconds in range(1, len(LINE_STYLES))]
    looks = line_looks(labels)
    assert len({(look["color"], look["linestyle"]) for look in looks.values()}) == len(labels)


def test_few_planners_share_no_colour() -> None:
    few = ["branch-and-bound", "cp-sat", "ilp-cbc", "ilp-highs", "greedy-breadth-best", "guest"]
    looks = line_looks([*few, "ilp-cbc:seed=1"])
    assert len({looks[label]["color"] for label in few}) == len(few)
    assert looks["ilp-cbc:seed=1"]["color"] == looks["ilp-cbc"]["color"]


def test_a_planner_has_one_colour_over_all_figures() -> None:
    some = line_looks(["zebra", "auto", "naive", "ant"])
    others = line_looks(["auto", "auto:seed=1", "cp-sat"])
    assert some["auto"] == others["auto"]
    assert others["auto:seed=1"]["color"] == others["auto"]["color"]
    runs = [
        record(name, label, 10 + place, incumbents=((0.1, 20 + place),))
        for name in "ab"
        for place, label in enumerate(["zebra", "auto", "naive", "ant"])
    ]
    material = PageMaterial("made-up", runs)
    drawn_looks = _looks(material)
    cases = material.cases
    for figure in (
        profile_figure(profile_lines(cases), drawn_looks),
        time_figure(timed_points(cases), drawn_looks),
        anytime_figure(anytime_curves(cases), drawn_looks),
    ):
        for line in figure.axes[0].get_lines():
            label = str(line.get_label()).partition(" ")[0]
            assert line.get_color() == drawn_looks[label]["color"]


def test_many_planners_have_a_panel_each_and_few_curves() -> None:
    many = [f"p{number:02}" for number in range(2 * MOST_LINES)]
    runs = [
        record("a", label, 10 + place, incumbents=((0.1, 99), (0.2, 10 + place)))
        for place, label in enumerate(many)
    ]
    cases, looks = cases_of(runs), line_looks(many)
    profile = profile_figure(profile_lines(cases), looks)
    assert [
        axes.get_title(loc="left").split()[0] for axes in profile.axes if axes.get_visible()
    ] == many
    assert all(
        axes.get_lines()[-1].get_color() == looks[label]["color"]
        for axes, label in zip(profile.axes, many, strict=False)
    )
    assert len(time_figure(timed_points(cases), looks).axes) == len(many)
    anytime = anytime_figure(anytime_curves(cases), looks)
    assert [line.get_label() for line in anytime.axes[0].get_lines()] == many[:MOST_LINES]
    assert "the best 6 of 12 planners" in anytime.get_supxlabel()
    most = [f"p{number:02}" for number in range(2 * MOST_PANELS)]
    lines = profile_lines(cases_of([record("a", label, 10) for label in most]))
    shown = profile_figure(lines, line_looks(most))
    assert "the first 30 of 60 planners" in shown.get_supxlabel()


def test_titles_of_panels_have_room() -> None:
    names = [f"omnimalloc:allocator=greedy_by_conflict_size:{n}" for n in range(2 * MOST_LINES)]
    cases = cases_of([record("a", name, 10) for name in names])
    figure = profile_figure(profile_lines(cases), line_looks(names))
    figure.draw_without_rendering()
    boxes = []
    for axes in figure.axes:
        (title,) = (
            child for child in axes.get_children()
            if isinstance(child, Text) and child.get_text() == axes.get_title(loc="left")
        )  # fmt: skip
        boxes.append(title.get_window_extent())
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert max(box.x1 for box in boxes) <= figure.bbox.x1


@pytest.mark.parametrize(
    "name", ["_hidden", r"$\nosuch{$", "$" * 3, "x" * 10**6, "\n", "\u202eRTL", ""]
)
def test_any_name_can_be_drawn(name: str) -> None:
    runs = [record(name, name, 10, incumbents=((0.1, 11),)), record(name, "b", 12)]
    cases = cases_of(runs)
    looks = line_looks([name, "b"])
    figure = anytime_figure(anytime_curves(cases), looks)
    assert len(figure.axes[0].get_legend_handles_labels()[1]) == 1
    assert bytes_of(figure, "svg").startswith(b"<?xml")
    assert drawn(bytes_of(profile_figure(profile_lines(cases), looks), "png")) > 0.01


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_figure_has_the_same_bytes(suffix: PictureFormat) -> None:
    lines = profile_lines(cases_of(records()))
    first, second = (profile_figure(lines, line_looks(lines)) for _ in range(2))
    assert bytes_of(first, suffix) == bytes_of(second, suffix)


@pytest.mark.parametrize("widest", [10 * LEAST_GAP, 0.5, 3.0, 1.2e3, 1e9])
def test_the_axis_of_gaps_has_few_labels_up_to_the_widest_gap(widest: float) -> None:
    lines = {"naive": ProfileLine(np.array([0.0, widest / 1.2]))}
    [axes] = profile_figure(lines, line_looks(lines)).axes
    zero, *powers = axes.xaxis.get_majorticklocs()
    assert zero == 0
    assert 1 <= len(powers) <= MOST_TICKS
    assert LEAST_GAP < powers[0] <= powers[-1] <= widest


def test_an_axis_of_less_than_a_power_of_ten_has_few_labels() -> None:
    _, [axes] = new_figure(2.0)
    axes.plot([0.55e-3, 1.75e-3], [0, 1])
    logarithmic(axes, "x", str)
    low, high = axes.get_xlim()
    shown = [at for at in axes.xaxis.get_minorticklocs() if low <= at <= high]
    assert shown == pytest.approx([0.7e-3, 1.5e-3])
