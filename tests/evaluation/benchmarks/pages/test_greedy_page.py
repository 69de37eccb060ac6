"""The page on greedy planners: its command line, and its tables on instances of a few tensors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from evaluation.benchmarks.pages import greedy_page
from planners import Problem, Result, write_problem
from planners.model.plan import Plan, Status, feasible


def runs_of(peak: int | None, seconds: float, memory: int = 1 << 20) -> greedy_page.ContestantRuns:
    result = Result(Status.INVALID, Plan([0], 1)) if peak is None else feasible(Plan([0], peak))
    return greedy_page.ContestantRuns(result, (seconds, 2 * seconds, 3 * seconds), (memory,) * 3)


def test_a_missing_peer_is_one_line(
    main: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "omnimalloc", None)
    assert main("greedy") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: .*pip install 'gapless\[bench\]'\n", err)


def test_the_best_is_the_lowest_then_the_fastest() -> None:
    runs = {
        "invalid": runs_of(None, 1e-6),
        "high": runs_of(9, 1e-5),
        "slow": runs_of(7, 1e-2),
        "fast": runs_of(7, 1e-3),
    }
    assert greedy_page._best(runs) == "fast"
    assert greedy_page._best({"invalid": runs_of(None, 1e-6)}) is None


def test_a_ratio_at_its_least_holds_the_worst_against_the_best() -> None:
    duel = greedy_page.Duel(10, runs_of(7, 1.0, 1 << 20), runs_of(8, 9.0, 1 << 24))
    assert (duel.time_ratio, duel.least_time_ratio) == (9.0, 3.0)
    assert (duel.memory_ratio, duel.least_memory_ratio) == (16.0, 16.0)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([(7, 7), (8, 8)], "equal"),
        ([(7, 8), (8, 8), (9, 8)], "lower on 1, equal on 1, higher on 1"),
        ([(None, 8)], "invalid"),
        ([(7, None)], "valid alone"),
    ],
)
def test_peaks_are_compared_over_the_seeds(
    pairs: list[tuple[int | None, int | None]], words: str
) -> None:
    duels = [greedy_page.Duel(1, runs_of(ours, 1), runs_of(theirs, 1)) for ours, theirs in pairs]
    assert greedy_page._peaks(duels) == words


def test_a_peak_that_failed_the_check_is_not_shown() -> None:
    row = greedy_page._planner_row("wrong", runs_of(None, 1e-3), 1, best=False)
    assert row[1:3] == ["invalid", "-"]


@pytest.mark.bench
def test_the_page_names_files_and_no_folder(
    main: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(greedy_page, "SIZES", (30,))
    monkeypatch.setattr(greedy_page, "LAYERS", (2,))
    monkeypatch.setattr(greedy_page, "SEEDS", range(2))
    monkeypatch.setattr(greedy_page, "OUR_GREEDY", "greedy-size-*")
    monkeypatch.setattr(greedy_page, "greedy_allocators", lambda: ("greedy_by_size",))
    path = tmp_path / "mine.json"
    write_problem(Problem([5, 4, 3], [0, 1, 2], [2, 3, 4], name="mine"), path)
    page = tmp_path / "page.md"
    assert main("greedy", path, "--repetitions", "1", "-o", page) == 0
    text = page.read_text()
    assert text == capsys.readouterr().out
    assert "python -m evaluation.benchmarks greedy mine.json`" in text
    assert str(tmp_path) not in text
    assert "invalid |" not in text
    assert re.search(r"^\| mine +\| +3 \|.*\| +equal \|$", text, re.MULTILINE)
    assert text.count("\n| * ") == 2
