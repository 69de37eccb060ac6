"""``--html`` writes a page, and says in one line why not where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from planners.compare import plots
from planners.errors import MissingDependencyError
from planners.files.problem_file import write_problem
from planners.model.problem import Problem
from tests.planners.compare.conftest import Compare


def test_the_page_is_written(compare: Compare, small: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    answer = compare(small, "--planners", "naive,greedy-size-first", "--html", target)
    assert answer.exit_code == 0, answer.output
    page = target.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "greedy-size-first" in answer.stdout


def test_a_name_that_is_no_page_is_refused(compare: Compare, small: Path, tmp_path: Path) -> None:
    answer = compare(small, "--planners", "naive", "--html", tmp_path / "page.pdf")
    assert answer.exit_code == 2
    assert "a page is written as .html or .htm, found the name 'page.pdf'" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_what_has_no_time_is_refused_before_anything_runs(compare: Compare, tmp_path: Path) -> None:
    write_problem(Problem(size=[1, 2], unsafe_pairs=[(0, 1)]), tmp_path / "pairs.json")
    answer = compare(tmp_path / "pairs.json", "--html", tmp_path / "page.html")
    assert answer.exit_code == 2
    assert "lifetimes are needed, found explicit unsafe pairs" in answer.stderr
    assert answer.stdout == ""


def test_without_bokeh_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        def load(self) -> None:
            raise ImportError("No module named 'bokeh'")

    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [Entry()])
    with pytest.raises(MissingDependencyError, match=r"pip install 'gapless\[report\]'"):
        plots.find_plot("comparison-page", plots.ComparisonPage)
