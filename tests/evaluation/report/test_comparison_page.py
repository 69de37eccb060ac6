"""The page of a comparison says what the table says, and asks nobody for anything."""

from __future__ import annotations

import re

import pytest

from evaluation.report.comparison_page import comparison_page
from planners.compare.comparison import Comparison, compare_planners
from planners.compare.report import SortBy, sorted_rows
from planners.model.budget import Budget
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
    return comparison_page(comparison, sorted_rows(comparison.rows, SortBy.CHOSEN))


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
