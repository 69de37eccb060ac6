"""The layout picture and the page: written, drawn from the plan, or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.image import imread

from evaluation.plots.layout import draw_layout, layout_figure
from planners import get, run
from planners.compare import plots
from planners.errors import MissingDependencyError
from planners.files.problem_file import write_problem
from planners.model.bounds import bounds_of
from planners.model.graph import Graph
from planners.model.problem import Problem
from tests.planners.compare.conftest import compare


def result_of(problem: Problem) -> Any:
    return run(problem, get("greedy-size-first"), bounds=bounds_of(problem))


def corners(problem: Problem) -> list[list[float]]:
    """Return left, right, low, high of each rectangle drawn, in bytes."""
    figure = layout_figure(problem, result_of(problem), bounds_of(problem))
    boxes = [
        path.get_extents()
        for collection in figure.axes[0].collections
        if isinstance(collection, PolyCollection)
        for path in collection.get_paths()
    ]
    return sorted([box.x0, box.x1, box.y0, box.y1] for box in boxes)


def test_the_picture_is_written_and_not_blank(small: Path, tmp_path: Path) -> None:
    target = tmp_path / "layout.png"
    answer = compare(small, "--planners", "greedy-size-first", "--plot", target)
    assert answer.exit_code == 0, answer.output
    picture = imread(target)[..., :3]
    height, width, _ = picture.shape
    assert (width, height) == (2000, 1120)
    inked = (picture < 0.9).any(axis=2).mean()
    assert 0.2 < inked < 0.9
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20


def test_there_is_one_rectangle_for_each_tensor() -> None:
    problem = Problem(size=[4, 2, 0, 3], start=[0, 1, 0, 5], end=[4, 7, 2, 9])
    assert corners(problem) == [[0, 4, 0, 4], [1, 7, 4, 6], [5, 9, 0, 3]]


def test_a_gap_parts_a_rectangle() -> None:
    problem = Problem(size=[4], start=[0], end=[9], gaps=[(0, 2, 5)])
    assert corners(problem) == [[0, 2, 0, 4], [5, 9, 0, 4]]


def test_a_step_is_as_wide_as_the_bytes_that_begin_or_end_there() -> None:
    # At step 0 60 bytes begin; at step 1, 50 end and 20 begin; 30 end at step 1,001.
    problem = Problem(size=[50, 10, 20], start=[0, 0, 1], end=[1, 1001, 1001])
    axes = layout_figure(problem, result_of(problem), bounds_of(problem)).axes[0]
    step, low = np.array([0, 1, 501, 1001]), np.zeros(4)
    across = axes.transLimits.transform(axes.transScale.transform(np.stack([step, low], 1)))[:, 0]
    assert across == pytest.approx([0, 60 / 130, 95 / 130, 1])
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert labels[0] == "0"
    assert labels[-1] == "1,001"


def test_streams_beyond_the_colours_share_one() -> None:
    nodes = 9
    problem = Problem(
        size=list(range(1, nodes + 1)),
        graph=Graph(
            op=["op"] * nodes,
            stream=list(range(nodes)),
            producer=list(range(nodes)),
            consumers=[[]] * nodes,
        ),
    )
    figure = layout_figure(problem, result_of(problem), bounds_of(problem))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["3", "4", "5", "6", "7", "8", "3 others"]
    assert figure.legends[0].get_title().get_text() == "stream of the producer"


def test_one_stream_is_coloured_by_size() -> None:
    problem = Problem(size=[1, 10, 100], start=[0, 0, 0], end=[100, 10, 1])
    figure = layout_figure(problem, result_of(problem), bounds_of(problem))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["up to 1 B", "up to 10 B", "up to 100 B"]


def test_the_levels_and_the_title_say_how_good_the_plan_is() -> None:
    problem = Problem(size=[4, 2], start=[0, 1], end=[4, 7], name="case")
    figure = layout_figure(problem, result_of(problem), bounds_of(problem))
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["peak", "lifetime bound"]
    assert [line.get_ydata()[0] for line in axes.lines] == [6, 6]
    title = axes.get_title(loc="left")
    assert title.split("  ·  ") == ["case", "greedy-size-first", "peak 6 B", "optimal"]


@pytest.mark.parametrize("size", [[], [0]])
def test_nothing_to_draw_is_drawn(size: list[int], tmp_path: Path) -> None:
    problem = Problem(size=size, start=[0] * len(size), end=[1] * len(size))
    draw_layout(problem, result_of(problem), bounds_of(problem), tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 1000


def test_the_page_is_written(small: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    answer = compare(small, "--planners", "naive,greedy-size-first", "--html", target)
    assert answer.exit_code == 0, answer.output
    page = target.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "greedy-size-first" in answer.stdout


@pytest.mark.parametrize(("option", "name"), [("--html", "page.html"), ("--plot", "a.png")])
def test_a_drawing_of_pairs_without_lifetimes_is_refused_before_anything_runs(
    tmp_path: Path, option: str, name: str
) -> None:
    write_problem(Problem(size=[1, 2], unsafe_pairs=[(0, 1)]), tmp_path / "pairs.json")
    answer = compare(tmp_path / "pairs.json", option, tmp_path / name)
    assert answer.exit_code == 2
    assert "lifetimes are needed, found explicit unsafe pairs" in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize(
    ("name", "kind", "package", "extra"),
    [
        ("layout", plots.Plot, "matplotlib", "plot"),
        ("comparison-page", plots.ComparisonPage, "bokeh", "report"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(
    name: str, kind: Any, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Entry:
        def load(self) -> None:
            raise ImportError(f"No module named '{package}'")

    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [Entry()])
    with pytest.raises(MissingDependencyError, match=rf"pip install 'gapless\[{extra}\]'"):
        plots.find_plot(name, kind)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    with pytest.raises(MissingDependencyError, match="no installed package draws it"):
        plots.find_plot(name, kind)


@pytest.mark.parametrize("end", ["raise ValueError('no ink')", "exit('no ink')"])
def test_whatever_a_picture_of_a_third_party_does_is_one_line(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    def draw(*_given: object) -> None:
        print("drawing")
        exec(end)

    theirs = plots.Plot(draw, (".png",), lambda _problem: None)
    offers = [SimpleNamespace(load=lambda: theirs)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: offers)
    answer = compare(small, "--planners", "naive", "--json", "--plot", tmp_path / "a.png")
    assert answer.exit_code == 2
    assert json.loads(answer.stdout)["instances"]
    assert answer.stderr.startswith("drawing\nerror: plot layout: ")
    assert answer.stderr.endswith(": no ink\n")
