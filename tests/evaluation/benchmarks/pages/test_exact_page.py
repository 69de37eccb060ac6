"""The page on exact planners: its command line, its numbers, its tables on tiny instances."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from evaluation.benchmarks.cases import exact_questions
from evaluation.benchmarks.cases.exact_questions import Question, SeedRuns, decision_question
from evaluation.benchmarks.cases.variations import VARIATIONS, vary
from evaluation.benchmarks.contestants.contestant_runs import ContestantRuns
from evaluation.benchmarks.pages import exact_page
from instances.synthetic import random_lifetimes, tight_capacity
from planners import Problem, Result, Status, registry, run, write_problem
from planners.errors import GaplessError
from planners.exact.branch_and_bound.branch_and_bound import NAME, Rules
from planners.model.bounds import lifetime_bound
from planners.model.plan import Plan, feasible, infeasible, no_plan_found, optimal

ROWS = "id,lower,upper,size\na,0,3,4\nb,2,5,3\nc,4,7,4\nd,0,7,2\n"
PLAN = Plan([0], 9)
FITS = Question(Path("folder/a.9.csv"), 9)
LEAST = Question(Path("folder/a.9.csv"), None)
FOUND, NOTHING = feasible(PLAN, 7), no_plan_found("the time limit passed", 7)
WRONG = Result(Status.INVALID, PLAN)


def runs(
    results: Sequence[Result], seconds: Sequence[float] = (1.0,), question: Question = FITS
) -> SeedRuns:
    costs = list(seconds) * len(results) if len(seconds) == 1 else list(seconds)
    runs = (
        ContestantRuns(result, (cost,), (0,)) for result, cost in zip(results, costs, strict=True)
    )
    return SeedRuns(question, 10.0, tuple(runs))


def tables(text: str) -> list[list[list[str]]]:
    """Return the tables of a page: rows of cells, the header first, the rule left out."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if not line.startswith("|"):
            found.append([])
        elif not line.startswith("|--"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return [table for table in found if table]


def write_rows(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text(ROWS)
    return path


def test_without_files_there_is_one_line(main: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("exact") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: exact: at least one instance file is needed, found none\n"


def test_a_file_that_is_not_there_is_one_line(
    main: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("exact", tmp_path / "none.9.csv") == 2
    assert re.fullmatch(r"error: .*none\.9\.csv: .*\n", capsys.readouterr().err)


def test_a_missing_peer_is_one_line(
    main: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "omnimalloc", None)
    assert main("exact", write_rows(tmp_path, "a.9.csv")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: .*pip install 'gapless\[bench\]'\n", err)


def test_a_capacity_is_given_or_of_the_problem_or_in_the_name(tmp_path: Path) -> None:
    named = write_rows(tmp_path, "a.1.9.csv")
    assert decision_question(named, None).capacity == 9
    assert decision_question(named, 12).capacity == 12
    inside = tmp_path / "b.9.json"
    write_problem(Problem([4], [0], [1], capacity=5), inside)
    assert decision_question(inside, None).capacity == 5
    assert decision_question(inside, 12).capacity == 12
    with pytest.raises(GaplessError, match=r"plain\.csv: a capacity is needed.*--capacity"):
        decision_question(write_rows(tmp_path, "plain.csv"), None)


@pytest.mark.parametrize(
    ("question", "result", "settled"),
    [
        (FITS, FOUND, True),
        (FITS, infeasible("x", "proven"), True),
        (FITS, NOTHING, False),
        (FITS, WRONG, False),
        (LEAST, optimal(PLAN, "x"), True),
        (LEAST, FOUND, False),
    ],
)
def test_what_is_final_depends_on_the_question(
    question: Question, result: Result, settled: bool
) -> None:
    assert question.settled_by(result) is settled
    assert runs([result], question=question).settled is settled


def test_the_median_and_the_worst_are_over_the_seeds() -> None:
    over = runs([FOUND] * 3, [1.0, 5.0, 2.0])
    assert (over.seconds, over.worst_seconds) == (2.0, 5.0)


def test_a_ratio_says_where_the_time_was_over() -> None:
    fast, slow = runs([FOUND], [1.0]), runs([FOUND], [4.0])
    late, lost = runs([NOTHING], [8.0]), runs([NOTHING], [2.0])
    assert exact_page._ratio([slow], [fast]) == "4.0x"
    assert exact_page._ratio([late], [fast]) == ">8.0x"
    assert exact_page._ratio([fast], [lost]) == "<0.5x"
    assert exact_page._ratio([late], [lost]) == "-"


def test_the_least_time_of_a_row_is_marked_and_a_limit_shown() -> None:
    row = exact_page.ProofRow(
        FITS, runs([FOUND], [3.0]), (runs([NOTHING], [8.0]), runs([FOUND], [2.0]))
    )
    assert exact_page._costs(row) == [
        "3,000",
        "3,000",
        "- (10 s)",
        "-",
        ">2.7x",
        "* 2,000",
        "2,000",
        "0.7x",
    ]


def test_a_total_is_the_sum_and_says_if_it_is_a_bound() -> None:
    row = exact_page.ProofRow(FITS, runs([FOUND] * 3, [1, 2, 6]), (runs([NOTHING], [8.0]),))
    assert exact_page._total_row([row, row], 1) == [
        "all",
        "",
        "4,000",
        "12,000",
        ">16,000",
        ">16,000",
        ">4.0x",
    ]


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([optimal(PLAN, "x")] * 2, "9 proven"),
        ([FOUND, feasible(Plan([0], 8), 6)], "[6, 9]"),
        ([FOUND, optimal(PLAN, "x")], "[7, 9], 1 of 2 proven"),
        ([NOTHING, NOTHING], "[7, -]"),
        ([FOUND, WRONG], "invalid"),
    ],
)
def test_the_answer_on_the_smallest_peak(results: list[Result], text: str) -> None:
    assert str(exact_page._minimum(runs(results, question=LEAST))) == text


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([FOUND], "fits"),
        ([infeasible("x", "proven")], "does not fit"),
        ([FOUND, NOTHING], "- or fits"),
        ([WRONG], "invalid"),
    ],
)
def test_the_answer_on_a_capacity(results: list[Result], text: str) -> None:
    assert exact_page._decision(runs(results)) == text


def test_a_wrong_plan_has_no_cost() -> None:
    assert exact_page._cost_cell(runs([FOUND, WRONG]), "1", best=True) == "invalid"


def test_every_rule_is_left_out_once() -> None:
    settings = exact_page.rule_settings()
    assert len(settings) == len(fields(Rules)) + 1
    for parameters in settings.values():
        assert registry.get(NAME, **parameters)


@pytest.mark.parametrize("variation", VARIATIONS)
def test_what_fits_fits_its_variants(variation: str) -> None:
    seen = set()
    for seed in range(8):
        problem = tight_capacity(12, utilisation=0.9, steps=500, units=256, seed=seed)
        variant = vary(problem, variation, seed)
        seen.add(tuple(map(tuple, (variant.size, variant.start, variant.end))))
        assert run(variant, NAME).status in exact_questions.FITS
        again = vary(problem, variation, seed)
        assert again.size.tolist() == variant.size.tolist()
        assert again.start.tolist() == variant.start.tolist()
        # Not the problem itself.
        assert not all(
            np.array_equal(getattr(variant, field), getattr(problem, field))
            for field in ("size", "start", "end")
        )
    assert len(seen) == 8


def test_a_variant_of_a_problem_without_tensors_is_one() -> None:
    for variation in VARIATIONS:
        assert vary(Problem([], [], [], capacity=3), variation, 0).tensor_count == 0


def test_variants_count_what_fits_and_what_was_spent() -> None:
    lost = runs([FOUND, NOTHING], [0.001, 0.003])
    assert exact_page._variant_row("mirrored", "a", [lost]) == [
        "mirrored",
        "a",
        "1 of 2",
        "0",
        "0",
        "2",
        "3",
    ]
    assert "invalid" in exact_page._variant_row("mirrored", "a", [runs([WRONG])])


@pytest.mark.parametrize(("answer", "count"), [(FOUND, 4), (NOTHING, 1)])
def test_a_peer_whose_time_was_over_is_not_asked_again(
    answer: Result, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        exact_questions, "run_contestant", lambda *_: ContestantRuns(answer, (1.0,), (0,))
    )
    question = decision_question(write_rows(tmp_path, "a.9.csv"), None)
    assert len(exact_questions.peer_runs(question, 10, 4, threads=1).by_seed) == count


@pytest.mark.bench
def test_the_page_has_its_tables_and_no_folder(
    main: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Each is a fresh process for each file and seed; two say as much as all.
    variations = list(VARIATIONS)[:2]
    monkeypatch.setattr(exact_page, "VARIATIONS", variations)
    files = [write_rows(tmp_path, name) for name in ("a.9.csv", "b.8.csv")]
    # No greedy plan meets the bound of this one, so that there is something to count.
    searched = random_lifetimes(20, seed=33)
    capacity = lifetime_bound(searched).bytes
    files.append(tmp_path / "c.json")
    write_problem(searched.with_capacity(capacity), files[-1])
    page = tmp_path / "page.md"
    assert main("exact", *files, "--seeds", "2", "--time-limit", "5", "-o", page) == 0
    text = page.read_text()
    assert text == capsys.readouterr().out
    assert "benchmarks exact a.9.csv b.8.csv c.json --time-limit 5 --seeds 2`" in text
    assert str(tmp_path) not in text
    assert "invalid |" not in text

    found = tables(text)
    rules = len(fields(Rules)) + 2
    variants = 1 + len(variations) * (len(files) + 1)
    assert [len(table) for table in found] == [5, 4, variants, 5, 4, 4, rules, rules]
    for table in found:
        assert len({len(row) for row in table}) == 1
    decisions, effort, varied, minima, counters, _, seconds, nodes = found
    assert [row[0] for row in decisions] == ["instance", "a.9.csv", "b.8.csv", "c.json", "all"]
    assert decisions[1][1:5] == ["4", "9", "9", "fits"]
    assert decisions[2][1:5] == ["4", "9", "8", "does not fit"]
    assert decisions[3][1:5] == ["20", f"{capacity:,}", f"{capacity:,}", "fits"]
    assert all(sum("*" in cell for cell in row) == 1 for row in decisions[1:4])
    assert [row[2] for row in minima[1:4]] == ["9 proven", "9 proven", f"{capacity:,} proven"]
    assert minima[4][0] == "3 proven"
    assert {(row[1], row[2]) for row in varied[1:]} == {
        ("a.9.csv", "2 of 2"),
        ("b.8.csv", "0 of 2"),
        ("c.json", "2 of 2"),
        ("all", "4 of 6"),
    }
    # The same search wherever it is counted.
    assert effort[1][1:] == ["0", "-", "-"]
    assert int(effort[3][1]) > 0
    assert counters[3][counters[0].index("nodes")] == effort[3][1]
    assert nodes[1][3].strip("* ") == effort[3][1]
    assert [row[0] for row in seconds] == [row[0] for row in nodes]
