"""Pages in a real browser: figures are drawn, the pointer finds tensors, and nothing is loaded.

What the pages look like is kept in the folder of the test, for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from evaluation.pages.comparison_page import write_comparison_page
from evaluation.pages.fit_page import write_fit_page
from evaluation.pages.page_material import PageMaterial
from evaluation.pages.replanned import map_of_file
from evaluation.pages.written_report import write_report
from gpu_runtime.fitting.fit_answer import FitAnswer
from gpu_runtime.fitting.remedies import Remedies, Remedy
from planners import run
from planners.compare.comparison import compare_planners
from planners.compare.report import SortBy, sorted_rows
from planners.files.problem_file import problem_digest, write_problem
from planners.model.budget import Budget
from planners.model.problem import Problem
from planners.registry import choose
from planners.text.byte_units import human_bytes
from tests.evaluation.study.made_up_records import record
from tests.gpu_runtime.fitting.test_replayed_program import fragmenting_trace, replayed
from tests.gpu_runtime.replaying.recordings import MIB

if TYPE_CHECKING:
    from tests.evaluation.pages.browser import Browser

pytestmark = pytest.mark.browser

MANY = 20_000
DESKTOP, PHONE = (1280, 900), (390, 844)
TABLET, SMALLEST = (768, 1024), (320, 844)
# From the axes of a map to the place in the window that shows a step and an offset.
PLACE = """
const view = Bokeh.index.find_one_by_id(Bokeh.documents[0].get_model_by_name("map-figure").id)
const box = view.canvas_view.el.getBoundingClientRect()
const frame = view.frame
return [box.left + frame.x_scale.compute(arguments[0]),
        box.top + frame.y_scale.compute(arguments[1])]
"""
TOOLTIP = """
const found = []
const search = (root) => {
  for (const element of root.querySelectorAll("*")) {
    if (element.classList.contains("bk-tooltip-content")) found.push(element.innerText)
    if (element.shadowRoot) search(element.shadowRoot)
  }
}
search(document)
return found.join(" ")
"""
# Left and right edges of what is shown beside the pointer.
TOOLTIP_EDGES = """
const found = []
const search = (root) => {
  for (const element of root.querySelectorAll("*")) {
    const box = element.getBoundingClientRect()
    if (element.classList.contains("bk-tooltip-content") && box.width) {
      found.push([box.left, box.right])
    }
    if (element.shadowRoot) search(element.shadowRoot)
  }
}
search(document)
return found
"""
RANGE = """
const {x_range, y_range} = Bokeh.documents[0].get_model_by_name("map-figure")
return [x_range.start, x_range.end, y_range.start, y_range.end]
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from tests.evaluation.pages.browser import started

    with started() as browser:
        yield browser


def wide_problem(count: int, first: str = "<b>first</b>") -> Problem:
    """Return a problem of a large first tensor, under its own name, and many small ones."""
    random = np.random.default_rng(1)
    start = random.integers(0, count, count)
    start[0] = 0
    end = start + random.integers(1, 200, count)
    end[0] = end.max()
    size = random.integers(1, 1 << 16, count)
    size[0] = size.sum() // 200
    names = [f"tensor {index}" for index in range(count)]
    return Problem(
        size=size, start=start, end=end, name=f"wide {count}",
        phase_start=start // (1 + count // 4), phase_end=end // (1 + count // 4),
        tensor_name=[first, *names[1:]],
    )  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "comparison.html"
    write_page(wide_problem(500), path)
    return path


def write_page(problem: Problem, path: Path) -> None:
    chosen = choose("greedy-size-first,greedy-source-first,naive")
    comparison = compare_planners(problem, chosen, Budget(time_limit_seconds=1.0))
    write_comparison_page(comparison, sorted_rows(comparison, SortBy.PEAK), None, path)


def point_at_first(browser: Browser, share: float = 0.5) -> None:
    """Move the pointer into the first tensor of the plan that is shown, so far to the right."""
    browser.ask("document.getElementById('map').scrollIntoView()")
    low, high = browser.ask(
        "const {data} = Bokeh.documents[0].get_model_by_name('map-rectangles').data_source;"
        " return [data.bottom[0], data.top[0]]"
    )
    x0, x1, _, _ = browser.ask(RANGE)
    browser.point_at(*browser.ask(PLACE, x0 + share * (x1 - x0), low + 0.8 * (high - low)))
    browser.settle()


def said_at_first(browser: Browser) -> str:
    """Return what stands beside the pointer on the first tensor."""
    point_at_first(browser)
    return str(browser.wait_for(TOOLTIP))


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_is_drawn_and_asks_for_nothing(
    browser: Browser, page: Path, screen: tuple[int, int]
) -> None:
    browser.open(page, *screen)
    browser.keep_picture(page.with_suffix(f".{screen[0]}.png"))
    assert browser.requested() == [page.resolve().as_uri()]
    assert browser.complaints() == []
    assert browser.ask("return document.documentElement.scrollWidth <= window.innerWidth")
    # The map is not blank: the first tensor has its colour where it lies.
    assert is_inked(page.with_suffix(f".{screen[0]}.png"))


def is_inked(picture: Path) -> bool:
    from matplotlib.image import imread

    pixels = imread(picture)[..., :3]
    return bool((np.ptp(pixels, axis=2) > 0.2).mean() > 0.05)


def test_pointing_shows_the_tensor(browser: Browser, page: Path) -> None:
    browser.open(page, *DESKTOP)
    text = said_at_first(browser)
    problem = wide_problem(500)
    assert "<b>first</b>" in text
    assert f"({problem.size[0]:,} B)" in text
    assert f"steps 0 to {problem.end[0]:,}" in text
    assert "phase of the allocation" in text
    browser.keep_picture(page.with_suffix(".pointed.png"))
    assert browser.complaints() == []


def test_a_tap_says_which_tensor_it_is(browser: Browser, page: Path) -> None:
    browser.open(page, *PHONE)
    point_at_first(browser)
    browser.tap()
    browser.settle()
    text = browser.ask("return Bokeh.documents[0].get_model_by_name('map-chosen').text")
    problem = wide_problem(500)
    assert text.startswith(f"<b>first</b>: size {human_bytes(int(problem.size[0]))}, steps 0 to ")
    assert text.endswith(", phase of the allocation 0")
    browser.keep_picture(page.with_suffix(".tapped.png"))
    assert browser.complaints() == []


@pytest.mark.parametrize(
    ("screen", "is_shown"),
    [(DESKTOP, True), (TABLET, True), (PHONE, False), (SMALLEST, False)],
    ids=["desktop", "tablet", "phone", "smallest"],
)
def test_the_text_beside_the_pointer_is_whole(
    browser: Browser, tmp_path: Path, screen: tuple[int, int], is_shown: bool
) -> None:
    page = tmp_path / "long-names.html"
    write_page(wide_problem(500, 20 * "a_long_name." + 20 * " of words"), page)
    browser.open(page, *screen)
    for share in (0.02, 0.45, 0.55, 0.98):
        point_at_first(browser, share)
        if is_shown:
            browser.wait_for(TOOLTIP)
        edges = browser.ask(TOOLTIP_EDGES)
        assert bool(edges) == is_shown
        assert all(left >= 0 and right <= screen[0] for left, right in edges), (share, edges)
    browser.tap()
    browser.settle()
    assert browser.ask("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.keep_picture(page.with_suffix(f".{screen[0]}.png"))
    assert browser.complaints() == []


def test_another_plan_moves_the_rectangles_and_the_peak(browser: Browser, page: Path) -> None:
    browser.open(page, *DESKTOP)
    before = browser.ask(RANGE)
    browser.ask("document.querySelector('button[data-plan=\"2\"]').click()")
    browser.settle()
    after = browser.ask(RANGE)
    assert after[:3] == before[:3]
    assert after[3] > 2 * before[3]
    offset = "Bokeh.documents[0].get_model_by_name('map-rectangles').data_source.data.offset"
    assert browser.ask(f"return new Set({offset}).size") == 500
    assert "naive" in browser.ask(
        "return document.body.innerText + Bokeh.documents[0].to_json_string()"
    )
    point_at_first(browser)
    assert browser.complaints() == []


def test_a_part_that_is_looked_at_stays_when_the_plan_changes(browser: Browser, page: Path) -> None:
    browser.open(page, *DESKTOP)
    browser.ask(
        "const {x_range, y_range} = Bokeh.documents[0].get_model_by_name('map-figure');"
        " x_range.setv({start: 10, end: 60}); y_range.setv({start: 0.1, end: 0.2})"
    )
    browser.ask("document.querySelector('button[data-plan=\"2\"]').click()")
    browser.settle()
    assert browser.ask(RANGE) == [10, 60, 0.1, 0.2]


def test_another_colour_has_another_legend(browser: Browser, page: Path) -> None:
    browser.open(page, *DESKTOP)
    browser.ask("Bokeh.documents[0].get_model_by_name('map-colour').value = '1'")
    browser.settle()
    field = browser.ask(
        "return Bokeh.documents[0].get_model_by_name('map-rectangles').glyph.fill_color.field"
    )
    assert field == "class_1"
    legend = browser.ask("return Bokeh.documents[0].get_model_by_name('map-legend').text")
    assert "phase of the allocation" in legend
    browser.keep_picture(page.with_suffix(".coloured.png"))
    assert browser.complaints() == []


def test_many_rectangles_are_drawn_and_found(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "many.html"
    write_page(wide_problem(MANY), page)
    browser.open(page, *DESKTOP)
    assert "<b>first</b>" in said_at_first(browser)
    browser.keep_picture(page.with_suffix(".png"))
    assert is_inked(page.with_suffix(".png"))
    assert browser.complaints() == []


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_report_is_drawn_and_asks_for_nothing(
    browser: Browser, tmp_path: Path, screen: tuple[int, int]
) -> None:
    problem = wide_problem(300)
    write_problem(problem, tmp_path / "wide.json")
    digest, name = problem_digest(problem), problem.name
    peaks = {planner: run(problem, planner).peak for planner in ("naive", "greedy-size-first")}
    records = [
        record(name, planner, peak, instance_digest=digest, tensors=300)
        for planner, peak in peaks.items()
    ]
    material = PageMaterial("made-up", records)
    drawn = {"map": map_of_file(tmp_path / "wide.json", material.cases, "map")}
    _, page = write_report(material, drawn, tmp_path)
    browser.open(page, *screen)
    if screen == DESKTOP:
        assert "<b>first</b>" in said_at_first(browser)
    browser.keep_picture(page.with_suffix(f".{screen[0]}.png"))
    widths = browser.ask("return [...document.images].map(its => its.naturalWidth)")
    assert len(widths) == 2
    assert min(widths) > 1000
    assert browser.requested() == [page.resolve().as_uri()]
    assert browser.complaints() == []
    assert browser.ask("return document.documentElement.scrollWidth <= window.innerWidth")


def test_words_of_a_prediction_wrap_and_no_column_is_cut(browser: Browser, tmp_path: Path) -> None:
    fit = replayed(fragmenting_trace(), 40 * MIB)
    remedies = [
        Remedy("a remedy of some words", f"{30 * 'long_'} with {30 * 'words '}", fit, label)
        for label in ("pytorch-caching", "planned")
    ]
    page = tmp_path / "fit.html"
    write_fit_page(FitAnswer([fit], remedies=Remedies([fit], found=remedies), groups=9), page)
    browser.open(page, *DESKTOP)
    browser.keep_picture(page.with_suffix(".png"))
    tables = "[...document.querySelectorAll('.scrolled')]"
    cut = f"{tables}.filter(its => its.scrollWidth > its.clientWidth)"
    assert browser.ask(f"return {cut}.map(its => its.innerText)") == []
