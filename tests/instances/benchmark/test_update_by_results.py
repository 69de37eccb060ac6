"""``python -m instances benchmark`` and ``update RESULTS``: from a folder to a new best plan."""

from __future__ import annotations

import json
import pkgutil
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from instances.__main__ import app
from instances.benchmark.page import benchmark_page
from instances.catalogue.catalogue_entry import DIFFICULTIES
from instances.catalogue.catalogue_file import read_catalogue, write_catalogue
from planners import place, read_plan, read_problem
from planners.files.problem_file import problem_digest
from tests.command_line import require_one_line, run_command
from tests.instances.benchmark.small_collection import (
    TOY_BEST,
    TOY_NAIVE,
    collection,
    list_of,
    result,
    toy_result,
    write_collection,
    write_endless,
    write_results,
)
from tests.instances.catalogue.entries import BEST, FACTS, entry
from tests.repository import ROOT


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    return write_collection(tmp_path)


def update(catalogue: Path, *lines: Any, options: tuple[str, ...] = ()) -> Result:
    results = write_results(catalogue.parent / "results.jsonl", *lines)
    return run_command(app, "update", results, "--catalogue", catalogue, *options)


# --- the folder to take away ---------------------------------------------------------------


def test_the_folder_has_every_instance_and_their_list(catalogue: Path, tmp_path: Path) -> None:
    done = run_command(app, "benchmark", tmp_path / "kit", "--catalogue", catalogue)
    assert done.exit_code == 0, done.stderr
    assert (
        "kit: 6 of 7 instances as JSON, 3 of them as CSV too; also list.json, check" in done.stdout
    )
    rows = list_of(tmp_path / "kit")
    for name, problem in collection().items():
        again = read_problem(tmp_path / "kit" / rows[name]["json"])
        assert problem_digest(again) == problem_digest(problem) == rows[name]["digest"]
        assert rows[name]["class"] in DIFFICULTIES
    assert [name for name, row in rows.items() if row["csv"]] == ["gaps", "toy", "traced"]
    toy = read_problem(tmp_path / "kit" / rows["toy"]["csv"])
    assert problem_digest(toy) == rows["toy"]["digest"]
    assert (rows["foreign"]["json"], rows["foreign"]["source"]) == ("", "somebody")
    assert (rows["toy"]["best"]["peak"], rows["toy"]["best"]["lower_bound"]) == (10, 6)
    assert json.loads((tmp_path / "kit" / "instance.schema.json").read_text())["title"]
    assert "](" not in (tmp_path / "kit" / "README.md").read_text(encoding="utf-8")


def test_instances_of_others_come_from_the_users_folder(catalogue: Path, tmp_path: Path) -> None:
    options = ("--catalogue", str(catalogue), "--folder", str(tmp_path / "theirs"))
    assert run_command(app, "benchmark", tmp_path / "kit", *options).exit_code == 0
    row = list_of(tmp_path / "kit")["foreign"]
    problem = read_problem(tmp_path / "kit" / row["json"])
    assert row["csv"] == "csv/foreign.csv"
    line = result("foreign", problem, place(problem).offsets.tolist())
    require_one_line(update(catalogue, line), "found none; get it from somebody")
    done = update(catalogue, line, options=options[2:])
    assert "foreign: equals" in done.stdout

    text = (tmp_path / "theirs" / "foreign.csv").read_text()
    (tmp_path / "theirs" / "foreign.csv").write_text(text.replace("lower,upper", "start,end"))
    done = update(catalogue, line, options=options[2:])
    require_one_line(done, "foreign.csv: the recorded instance foreign has the digest sha256:")


def test_a_benchmark_that_is_published_is_catalogued(catalogue: Path, tmp_path: Path) -> None:
    shutil.copy(tmp_path / "theirs" / "foreign.csv", tmp_path / "theirs" / "new.csv")
    options = ("--folder", tmp_path / "theirs", "--catalogue", catalogue)
    for name in ("new", "foreign"):
        assert run_command(app, "update", name, *options).exit_code == 0
    entries = read_catalogue(catalogue)
    assert (entries["new"].kind, entries["new"].committed) == ("published benchmark", False)
    assert (entries["foreign"].source, entries["foreign"].file) == ("somebody", "foreign.csv")
    # Another table in that folder is not an instance.
    (tmp_path / "theirs" / "table.csv").write_text("a,b\n1,2\n")
    write_catalogue([entries["foreign"]], catalogue)
    assert "foreign: " in run_command(app, "update", "f*", *options).stdout
    assert list(read_catalogue(catalogue)) == ["foreign"]


def test_without_a_target_nothing_is_written(catalogue: Path, tmp_path: Path) -> None:
    done = run_command(app, "benchmark", "--catalogue", catalogue)
    require_one_line(done, "nothing to write; give a folder, or --page")
    done = run_command(app, "benchmark", tmp_path / "no" / "kit", "--catalogue", catalogue)
    require_one_line(done, "no folder can be made: No such file or directory")


def test_the_page_is_what_its_command_makes() -> None:
    page = (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8")
    again = "python -m instances benchmark --page docs/benchmark.md makes the page again"
    assert page == benchmark_page(), again
    assert "<<" not in page


# --- classes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "difficulty"),
    [
        ({}, "easy"),
        ({"planner": "pressure"}, "easy"),
        ({"planner": "auto"}, "hard"),
        ({"certificate": "auto"}, "hard"),
        ({"certificate": "construction"}, "hard"),
        ({"commit": ""}, "hard"),
        ({"peak": 2049}, "open"),
    ],
)
def test_the_class_follows_from_the_best_plan_and_bound(
    changes: dict[str, Any], difficulty: str
) -> None:
    assert FACTS.bounds["antichain"] == BEST.peak
    assert entry(best=replace(BEST, **changes)).difficulty == difficulty


# --- a results file ------------------------------------------------------------------------


def test_a_better_plan_becomes_the_best_known(catalogue: Path, tmp_path: Path) -> None:
    middle = toy_result([0, 2, 6], planner="another")
    done = update(catalogue, toy_result(TOY_NAIVE), middle, toy_result(TOY_BEST))
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == [
        "line 1: toy: equals: 10 bytes by mine 1, Ada; the best known plan has 10, by "
        "greedy-size-first; 66.667 % above the best bound",
        "line 2: toy: improves: 8 bytes by another, Ada; the best known plan has 10, by "
        "greedy-size-first; 33.333 % above the best bound",
        "line 3: toy: improves: 6 bytes by mine 1, Ada; the best known plan has 10, by "
        "greedy-size-first; 0 % above the best bound",
        "2 improved, 1 equalled, 0 missed, 0 refused",
    ]
    best = read_catalogue(catalogue)["toy"].best
    assert (best.peak, best.planner, best.status) == (6, "mine 1, Ada", "optimal")
    assert (best.commit, best.version, best.certificate) == ("", "", "lifetime")
    kept = read_plan(read_problem(tmp_path / "toy.json"), tmp_path / "plans" / "toy.json.gz")
    assert kept.plan is not None
    assert kept.plan.offsets.tolist() == TOY_BEST
    assert kept.planner == "mine 1, Ada"
    shown = run_command(app, "show", "toy", "--catalogue", catalogue).stdout
    assert "found by        mine 1, Ada\n" in shown
    assert "toy: misses" in update(catalogue, toy_result(TOY_NAIVE)).stdout
    # A search of ours that finds no better plan leaves theirs.
    run_command(app, "update", "toy", "--catalogue", catalogue)
    assert read_catalogue(catalogue)["toy"].best == best


def test_the_lowest_of_several_better_plans_is_kept(catalogue: Path, tmp_path: Path) -> None:
    worse = toy_result([0, 2, 6], planner="another", lower_bound=6)
    assert "2 improved" in update(catalogue, toy_result(TOY_BEST, lower_bound=6), worse).stdout
    assert read_catalogue(catalogue)["toy"].best.planner == "mine 1, Ada"
    kept = read_plan(read_problem(tmp_path / "toy.json"), tmp_path / "plans" / "toy.json.gz")
    assert kept.peak == 6


REFUSED = [
    (toy_result([0, 0, 2]), "unsafe tensors share bytes: tensor 0 at [0, 4) and tensor 2"),
    (toy_result([1, 0, 6]), "the offset must be a multiple of 2, found 1"),
    (toy_result(TOY_BEST, peak=5), "the peak is the largest offset + size, 6, found 5"),
    (toy_result(TOY_BEST, offsets=[0, 0]), "one offset a tensor is needed, found 2 for 3"),
    (toy_result([0, 0, -2]), "offsets are at least 0, found -2"),
    (
        toy_result(TOY_BEST, lower_bound=7),
        "of 7 bytes is above the peak of mine 1, Ada's valid plan",
    ),
    (toy_result(TOY_NAIVE, lower_bound=11), "above the peak of greedy-size-first's valid plan, 10"),
]


@pytest.mark.parametrize(("line", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_a_wrong_result_is_refused_in_one_line(catalogue: Path, line: Any, reason: str) -> None:
    before = catalogue.read_bytes()
    done = update(catalogue, toy_result(TOY_NAIVE), line)
    assert (done.exit_code, done.stderr) == (1, "")
    _, said, counts = done.stdout.splitlines()
    assert said.startswith("line 2: toy: refused: ")
    assert reason in said
    assert counts == "0 improved, 1 equalled, 0 missed, 1 refused"
    assert catalogue.read_bytes() == before


def test_a_bound_that_nothing_refutes_is_not_recorded(catalogue: Path) -> None:
    before = catalogue.read_bytes()
    said = update(catalogue, toy_result(TOY_NAIVE, lower_bound=9)).stdout
    assert "the claimed bound of 9 is not recorded, as a claim proves nothing" in said
    assert catalogue.read_bytes() == before
    done = update(catalogue, toy_result(TOY_NAIVE, lower_bound=9), toy_result(TOY_BEST))
    assert "line 1: toy: refused" in done.stdout
    assert read_catalogue(catalogue)["toy"].best.peak == 6


def test_a_plan_below_a_recorded_bound_accuses_the_record(catalogue: Path) -> None:
    entries = read_catalogue(catalogue)
    best = replace(entries["toy"].best, lower_bound=8)
    write_catalogue([replace(entries["toy"], best=best)], catalogue)
    done = update(catalogue, toy_result(TOY_BEST))
    assert done.exit_code == 1
    assert "below the recorded bound lifetime, 8; the record is wrong" in done.stdout


MISTAKES = [
    ("[]", "line 1: field file: an object is needed"),
    ("{", "line 1: the file is not a whole JSON text"),
    ("\n", "a result is needed, found none"),
    (toy_result(TOY_BEST, peak=None), "line 1: field peak: missing"),
    (toy_result(TOY_BEST, speed=1), "line 1: field speed: unknown"),
    (toy_result(TOY_BEST, planner=""), "field planner: a printable string is needed, found ''"),
    (toy_result(TOY_BEST, planner="x" * 81), "field planner: a string of at most 80 characters"),
    (toy_result(TOY_BEST, finder=3), "field finder: a printable string is needed, found 3"),
    (toy_result(TOY_BEST, peak=6.0), "field peak: a whole number from 0 to 2**63 - 1 is needed"),
    (toy_result(TOY_BEST, lower_bound=-1), "field lower_bound: a whole number from 0"),
    (toy_result(TOY_BEST, seconds=-1), "field seconds: a number of at least 0 is needed"),
    (toy_result(TOY_BEST, offsets=None), "one of the fields offsets and plan is needed"),
    (toy_result(TOY_BEST, plan="p.json"), "one of the fields offsets and plan is needed"),
    (toy_result(TOY_BEST, offsets=3 * [0.5]), "line 1: field offsets, "),
    (toy_result(TOY_BEST, offsets=None, plan="../p.json"), "field plan: the name of a file in"),
    (toy_result(TOY_BEST, offsets=None, plan="p.json"), "p.json: the file cannot be read"),
    (toy_result(TOY_BEST, instance="toyy"), "line 1: no instance is called 'toyy'; did you mean"),
    (toy_result(TOY_BEST, digest="sha256:0"), "line 1, field digest: sha256:"),
]


@pytest.mark.parametrize(("line", "message"), MISTAKES, ids=[each for _, each in MISTAKES])
def test_a_mistake_in_the_file_is_one_line(catalogue: Path, line: Any, message: str) -> None:
    results = catalogue.parent / "results.jsonl"
    results.write_text(line if isinstance(line, str) else json.dumps(line))
    done = run_command(app, "update", results, "--catalogue", catalogue)
    require_one_line(done, message)
    assert done.stderr.startswith(f"error: {results}: ")


ENDLESS = [
    ("pipe.jsonl", "a plain file is needed"),
    ("device.jsonl", "a plain file is needed"),
    ("unfolds.jsonl", "may unfold to at most"),
]


@pytest.mark.parametrize(("name", "message"), ENDLESS)
def test_a_plan_without_an_end_is_refused(catalogue: Path, name: str, message: str) -> None:
    folder = write_endless(catalogue.parent)
    done = update(catalogue, toy_result(TOY_BEST, offsets=None, plan=name))
    require_one_line(done, message)
    assert done.stderr.startswith(f"error: {folder / 'results.jsonl'}: line 1: {name}: ")
    done = run_command(app, "update", folder / name, "--catalogue", catalogue)
    require_one_line(done, f"{name}: ")


def test_a_plan_that_many_lines_name_is_read_and_judged_once(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(TOY_BEST))
    calls = []
    for name in ("results_file.read_json", "verdicts.find_violation_fast"):
        where = f"instances.benchmark.{name}"
        real = pkgutil.resolve_name(where.replace(".read", ":read").replace(".find", ":find"))
        monkeypatch.setattr(where, lambda *given, real=real: calls.append(real) or real(*given))
    named = toy_result(TOY_BEST, offsets=None, plan="plan.json")
    done = update(catalogue, *[named] * 20, named | {"peak": 7})
    assert done.stdout.endswith("20 improved, 0 equalled, 0 missed, 1 refused\n")
    assert len(calls) == 3


def test_a_results_file_comes_alone(catalogue: Path) -> None:
    done = update(catalogue, toy_result(TOY_BEST), options=("toy",))
    require_one_line(done, "one results file alone is needed, found 2 arguments")
    done = run_command(app, "update", "none.jsonl", "--catalogue", catalogue)
    require_one_line(done, "none.jsonl: the file cannot be read")


def test_plans_may_lie_in_files_of_their_own(catalogue: Path, tmp_path: Path) -> None:
    assert update(catalogue, toy_result(TOY_BEST)).exit_code == 0
    shutil.copy(tmp_path / "plans" / "toy.json.gz", tmp_path / "saved.json.gz")
    (tmp_path / "list.json").write_text(json.dumps(TOY_BEST))
    for name in ("saved.json.gz", "list.json"):
        done = update(catalogue, toy_result(TOY_BEST, offsets=None, plan=name))
        assert "toy: equals: 6 bytes" in done.stdout, done.stderr


def test_an_installed_catalogue_stays(catalogue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = catalogue.read_bytes()
    monkeypatch.setattr("instances.__main__.is_checkout", lambda: False)
    monkeypatch.setattr("instances.__main__.CATALOGUE", catalogue)
    done = update(catalogue, toy_result(TOY_BEST))
    assert (done.exit_code, catalogue.read_bytes()) == (0, before)
    assert "toy: improves" in done.stdout
    assert done.stderr == "the installed catalogue stays; in a checkout, this command records\n"


def test_every_plan_of_others_is_kept_and_is_the_best_known() -> None:
    folder = ROOT / "instances" / "plans"
    theirs = [entry for entry in read_catalogue().values() if not entry.best.commit]
    kept = {path.name for path in folder.iterdir()} if folder.exists() else set()
    assert kept == {f"{entry.name}.json.gz" for entry in theirs}
    for each in theirs:
        if each.committed:
            plan = read_plan(read_problem(each.name), folder / f"{each.name}.json.gz")
            assert (plan.peak, plan.planner) == (each.best.peak, each.best.planner)


def test_an_open_synthetic_instance_misses_its_optimum() -> None:
    for each in read_catalogue().values():
        if each.difficulty == "open" and each.name.startswith("synthetic-"):
            assert each.facts.optimum == each.best.lower_bound
