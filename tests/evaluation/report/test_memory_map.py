"""The memory map holds every rectangle of every plan, and what a reader asks of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bokeh.models import ColumnDataSource, Div, GlyphRenderer, Span

from evaluation.plots.tensor_classes import BOUND_COLOUR, INK
from evaluation.report.memory_map import MappedPlan, memory_map
from planners.model.bounds import Bound
from planners.model.graph import Graph
from planners.model.plan import Plan, feasible, optimal
from planners.model.problem import Problem


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


def test_what_can_be_coloured_by_is_what_the_problem_knows() -> None:
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
