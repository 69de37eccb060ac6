"""The page of a comparison says what the table says, and its map holds every rectangle."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from bokeh.models import ColumnDataSource, Div, GlyphRenderer, Span

from evaluation.pages.comparison_page import comparison_page
from evaluation.pages.memory_map import MappedPlan, memory_map
from evaluation.plots.plan_rectangles import BOUND_COLOUR, INK
from planners.compare.comparison import Comparison, compare_planners
from planners.compare.report import SortBy, sorted_rows
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.graph import Graph
from planners.model.plan import Plan, feasible, optimal
from planners.model.problem import Problem
from planners.registry import choose

HOSTILE = "</script><script>alert(1)</script>"


def compared(problem: Problem, names: str) -> Comparison:
    return compare_planners(problem, choose(names), Budget(time_limit_seconds=1.0))


@pytest.fixture(scope="module")
def page() -> str:
    problem = Problem(
        size=[4, 2, 3], start=[0, 1, 5], end=[4, 7, 9], tensor_name=[HOSTILE, "b", "c"],
        name=HOSTILE,
    )  # fmt: skip
    comparison = compared(problem, "naive,greedy-size-first")
    return comparison_page(comparison, sorted_rows(comparison, SortBy.CHOSEN))


def test_the_table_has_every_planner_and_marks_the_best(page: str) -> None:
    rows = re.findall(r"<tr(?: class=\"(\w+)\")?>\s*<td>([\w-]+)</td>", page)
    assert rows == [("", "naive"), ("best", "greedy-size-first")]


def test_the_best_plan_is_the_first_of_the_map(page: str) -> None:
    assert re.findall(r'data-plan="(\d)"', page) == ["1", "0"]
    assert re.search(r'\[\["0","greedy-size-first"\],\["1","naive"\]\]', page)


def test_names_are_text_wherever_they_stand(page: str) -> None:
    assert HOSTILE not in page
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in page


def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    head = page.partition("<script")[0]
    assert "default-src 'none'" in head
    bare = re.sub(r"(<script\b[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", bare)
    assert '<link rel="icon" href="data:,">' in tags
    assert [tag for tag in tags if re.search(r'(?:src|href)="?(?!data:)[^">]', tag)] == []


def test_a_planner_without_a_plan_has_a_row_and_no_map() -> None:
    problem = Problem(size=[4, 2], start=[0, 1], end=[4, 7], phase_start=[0, 0], phase_end=[1, 1])
    comparison = compared(problem.with_capacity(3), "naive,greedy-size-first")
    assert comparison.best is None
    problem_with_pins = Problem(size=[4, 2], start=[0, 1], end=[4, 7], pinned={0: 0})
    comparison = compared(problem_with_pins, "*")
    without = [row.label for row in comparison.rows if row.result.plan is None]
    assert without
    text = comparison_page(comparison, comparison.rows)
    for label in without:
        row = re.search(rf">{re.escape(label)}</td>.*?</tr>", text, re.DOTALL)
        assert row is not None
        assert "data-plan" not in row[0]


def mapped(problem: Problem, label: str, offsets: list[int]) -> MappedPlan:
    return MappedPlan(label, feasible(Plan.of(problem, offsets), 6, "lifetime"))


def map_of(problem: Problem, *plans: MappedPlan) -> Any:
    return memory_map(problem, plans, [], "here")


def source_of(drawn: Any) -> ColumnDataSource:
    renderer = drawn.select_one({"type": GlyphRenderer})
    return renderer.data_source


def texts_of(drawn: Any) -> str:
    return "\n".join(div.text for div in drawn.select({"type": Div}))


@pytest.fixture
def problem() -> Problem:
    return Problem(
        size=[4, 2, 0, 3], start=[0, 1, 0, 5], end=[4, 7, 2, 9],
        tensor_name=["weights", "<b>activation</b>", "nothing", "result"],
    )  # fmt: skip


def test_there_is_one_rectangle_for_each_tensor_with_bytes(problem: Problem) -> None:
    data = source_of(map_of(problem, mapped(problem, "one", [0, 4, 0, 0]))).data
    boxes = [np.asarray(data[side]).tolist() for side in ("left", "right", "bottom", "top")]
    assert list(zip(*boxes, strict=True)) == [(0, 4, 0, 4), (1, 7, 4, 6), (5, 9, 0, 3)]
    assert data["name"] == ["weights", "<b>activation</b>", "result"]
    assert data["size_text"] == ["4 B", "2 B", "3 B"]


def test_a_gap_parts_a_rectangle_and_leaves_the_lifetime() -> None:
    problem = Problem(size=[4], start=[0], end=[9], gaps=[(0, 2, 5)])
    data = source_of(map_of(problem, mapped(problem, "one", [0]))).data
    assert np.asarray(data["left"]).tolist() == [0, 5]
    assert np.asarray(data["right"]).tolist() == [2, 9]
    assert np.asarray(data["end"]).tolist() == [9, 9]


def test_each_plan_can_be_chosen_and_has_its_own_offsets(problem: Problem) -> None:
    drawn = map_of(
        problem, mapped(problem, "one", [0, 4, 0, 0]), mapped(problem, "two", [2, 0, 0, 2])
    )
    choice = drawn.select_one({"name": "here-plan"})
    assert choice.options == [("0", "one"), ("1", "two")]
    (script,) = choice.js_property_callbacks["change:value"]
    assert script.args["offsets"].data["1"].tolist() == [2, 0, 2]
    assert script.args["peaks"] == [6, 6]


def test_large_sizes_are_drawn_in_their_unit() -> None:
    gib = 1 << 30
    problem = Problem(size=[3 * gib, gib], start=[0, 0], end=[1, 1])
    drawn = map_of(problem, mapped(problem, "one", [0, 3 * gib]))
    data = source_of(drawn).data
    assert np.asarray(data["bottom"]).tolist() == [0, 3]
    assert np.asarray(data["top"]).tolist() == [3, 4]
    assert drawn.children[2].yaxis.axis_label == "offset (GiB)"
    assert "peak 4.000 GiB (4,294,967,296 B)" in texts_of(drawn)


def test_peak_and_best_bound_are_lines(problem: Problem) -> None:
    plans = (mapped(problem, "one", [0, 5, 0, 0]),)
    witness = np.array([0, 1])
    bounds = [Bound("antichain", 5, witness), Bound("lifetime", 6, witness)]
    drawn = memory_map(problem, plans, bounds, "here")
    spans = {span.line_color: span.location for span in drawn.select({"type": Span})}
    assert spans == {INK: 7, BOUND_COLOUR: 6}
    text = texts_of(drawn)
    assert "lifetime bound 6 B" in text
    assert "16.7 % above the bound" in text
    assert "optimal" not in text


def test_a_proof_is_said(problem: Problem) -> None:
    plan = Plan.of(problem, [0, 4, 0, 0])
    drawn = map_of(problem, MappedPlan("one", optimal(plan, "cp-sat")))
    assert "proven optimal" in texts_of(drawn)


def test_offers_colours_for_the_fields_of_the_problem() -> None:
    nodes = 9
    graph = Graph(
        op=[f"<i>op{node}" for node in range(nodes)], stream=[node % 2 for node in range(nodes)],
        producer=list(range(nodes)), consumers=[[]] * nodes,
    )  # fmt: skip
    problem = Problem(size=list(range(1, nodes + 1)), graph=graph, phase_start=[0, 1, 2] * 3)
    drawn = map_of(problem, mapped(problem, "<i>one", list(range(0, 90, 10))))
    choice = drawn.select_one({"name": "here-colour"})
    assert [title for _, title in choice.options] == [
        "stream of the producer", "size", "operation of the producer", "phase of the allocation",
    ]  # fmt: skip
    (script,) = choice.js_property_callbacks["change:value"]
    legend = script.args["legends"][2]
    assert "&lt;i&gt;op8" in legend
    assert "3 others" in legend
    assert "<i>" not in legend + texts_of(drawn)
    data = source_of(drawn).data
    assert np.asarray(data["class_0"]).tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0]
    # The class of the smallest is "others"; the pointer still tells its own operation.
    assert data["value_2"][0] == "<i>op0"
    assert [len(mapper.palette) for mapper in script.args["mappers"]] == [2, 5, 7, 3]


def test_nothing_to_draw_is_drawn() -> None:
    problem = Problem(size=[], start=[], end=[])
    drawn = map_of(problem, MappedPlan("one", optimal(Plan.of(problem, []), "lifetime")))
    assert len(source_of(drawn).data["left"]) == 0
    assert "peak 0 B" in texts_of(drawn)
