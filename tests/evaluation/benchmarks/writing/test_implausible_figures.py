"""A page that would say what cannot be true is not written, and the figure is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from evaluation.benchmarks.cases import committed_instances
from evaluation.benchmarks.contestants.contestant_runs import ContestantRuns
from evaluation.benchmarks.pages import (
    auto_page,
    greedy_page,
)
from evaluation.benchmarks.writing.figure import Figure, gap, greedy_peak
from evaluation.benchmarks.writing.page import ImplausiblePageError, Page
from instances.synthetic import random_lifetimes
from planners import Bound, GaplessError, Plan, Problem, feasible, get, write_problem
from planners.run import solve

Main = Callable[..., int]
ABOVE_GREEDY = "a planner that searches is never above a greedy one"
BELOW_BOUND = "no plan is below a lower bound"


def test_a_figure_that_can_be_true_is_its_text() -> None:
    assert gap(12, 10, 12) == Figure("20.0000%")
    assert gap(10, 10) == Figure("0 %")
    assert gap(10_000_001, 10_000_000) == Figure("<0.0001%")


@pytest.mark.parametrize(
    ("figure", "fault"),
    [
        (gap(9, 10), BELOW_BOUND),
        (gap(13, 10, 12), ABOVE_GREEDY),
        (gap(float("nan"), 10), "finite"),
        (gap(float("inf"), 10), "finite"),
        (gap(-1, 0), BELOW_BOUND),
    ],
    ids=str,
)
def test_a_figure_that_cannot_says_why(figure: Figure, fault: str) -> None:
    assert fault in figure.fault
    with pytest.raises(ImplausiblePageError) as raised:
        Page("A page", "it").table(["file", "gap"], [["fine", gap(1, 1)], ["mine", figure]])
    message = str(raised.value)
    assert message.startswith(f"A page, row mine, gap {figure.text}: ")
    assert message.endswith("; no page is written")


def test_a_table_has_rows() -> None:
    with pytest.raises(ImplausiblePageError, match="a table needs rows, found none below file"):
        Page("A page", "it").table(["file", "gap"], [])


def test_the_greedy_plan_that_is_at_hand_is_that_of_a_registered_planner() -> None:
    problem = random_lifetimes(50, seed=1)
    assert greedy_peak(problem) == solve(problem, get("greedy-size-first")).peak


# ---- Every page that shows a peak ----------------------------------------------------------------

PROBLEM = Problem([300, 100, 200], [0, 1, 3], [2, 4, 5], name="mine")


def runs_of(peak: int, seconds: float = 1.0) -> ContestantRuns:
    return ContestantRuns(feasible(Plan([0], peak)), (seconds,), (0,))


def add_to_auto(page: Page, peak: int) -> None:
    bound = Bound("lifetime", 8, np.array([0]))
    runs = {"auto": [runs_of(peak)], "cp-sat": [runs_of(8)]}
    auto_page._add_graphs(page, [auto_page.AutoInstance("mine", 1, bound, 12, runs)])


def add_to_greedy(page: Page, peak: int) -> None:
    page.table(["planner"] * 6, [greedy_page._planner_row("mine", runs_of(peak), 8, best=False)])


@pytest.mark.parametrize(
    ("add", "peak", "fault"),
    [
        (add_to_auto, 13, ABOVE_GREEDY),
        (add_to_auto, 7, BELOW_BOUND),
        (add_to_greedy, 7, BELOW_BOUND),
    ],
)
def test_no_page_shows_such_a_peak(add: Callable[[Page, int], None], peak: int, fault: str) -> None:
    add(Page("A page", "it"), 12)
    with pytest.raises(ImplausiblePageError, match=fault):
        add(Page("A page", "it"), peak)


# ---- What is measured at all ---------------------------------------------------------------------


def test_without_files_pages_are_made_of_the_committed_instances_wherever_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [path.name.partition(".")[0] for path in committed_instances.committed_instances()]
    assert names[0] == "bert"
    assert "resnet-50" in names
    (bert,) = committed_instances.committed_instances(["bert"])
    assert bert.name == "bert.json"


def test_no_instance_at_all_is_an_error_that_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(GaplessError, match=f"{tmp_path}: instances .* are needed, found none"):
        committed_instances.committed_instances(folder=tmp_path)
    write_problem(PROBLEM, tmp_path / "mine.json")
    with pytest.raises(GaplessError, match="an instance bert is needed, found none of that name"):
        committed_instances.committed_instances(["bert"], tmp_path)
