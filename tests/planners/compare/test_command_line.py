"""``python -m planners.compare`` in this process: options, output, exit codes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planners.files.plan_file import read_plan
from planners.files.problem_file import read_gapless_json
from tests.planners.compare.conftest import compare

Plugin = Callable[[str], Path]

QUICK = ("--planners", "naive,greedy-size-*,many-objects-size-first")

WRONG_PLAN = """
@planners.register("all-at-zero")
def all_at_zero(problem, budget):
    return planners.Plan.of(problem, [0] * problem.tensor_count)
"""


def only_object(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_the_table_has_a_row_for_each_planner_and_marks_the_best(small: Path) -> None:
    answer = compare(small, *QUICK)
    assert answer.exit_code == 0, answer.output
    first, headings, *rows = answer.stdout.splitlines()
    assert first.startswith(
        "small: 5 tensors, 1 stream, 0 chains; 50.000 % of pairs unsafe; naive sum 19 B (19); "
        "bounds: lifetime 10 B (10), block 6 B (6); safety "
    )
    assert " ".join(headings.split()) == (
        "planner status peak bytes gap to bound gap to best seconds"
    )
    assert {row.split()[1] for row in rows if row.startswith("*")} == {
        "greedy-size-first", "greedy-size-best", "many-objects-size-first",
    }  # fmt: skip
    naive = next(row for row in rows if "naive" in row)
    assert " ".join(naive.split()[:-1]) == "naive feasible 19 B 19 90.000 % 90.000 %"
    assert rows[-1] == "gap to bound: above lifetime, 10 B (10)"
    assert "\x1b" not in answer.stdout


def test_json_is_one_object_with_the_promised_keys(small: Path) -> None:
    answer = compare(small, *QUICK, "--json", "--seed", "3")
    (instance,) = only_object(answer.stdout)["instances"]
    assert instance["instance"] == "small"
    assert (instance["tensors"], instance["streams"], instance["chains"]) == (5, 1, 0)
    assert instance["bounds"] == {"lifetime": 10, "block": 6}
    assert [result["planner"] for result in instance["results"]][-1] == "naive"
    for result in instance["results"]:
        assert result["valid"] is True
        assert result["lower_bound"] == 10
        assert result["certificate"] == "lifetime"
        assert result["gap_to_bound"] == pytest.approx(result["peak"] / 10 - 1)
        assert result["seed"] == 3
        assert result["seconds"] >= 0


def test_json_without_tensors_has_finite_numbers(empty: Path) -> None:
    answer = compare(empty, "--json")
    assert answer.exit_code == 0, answer.output
    (instance,) = only_object(answer.stdout)["instances"]
    assert instance["tensors"] == 0
    assert {result["status"] for result in instance["results"]} == {"optimal"}
    assert {result["gap_to_bound"] for result in instance["results"]} == {0.0}
    table = compare(empty, *QUICK).stdout
    assert "0 %" in table
    assert not {"nan", "inf"} & set(table.split())


def test_a_bound_of_zero_below_a_peak_gives_no_gap(plugin: Plugin) -> None:
    path = plugin(
        "@planners.register('high')\n"
        "def high(problem, budget):\n"
        "    return planners.Plan.of(problem, [8])\n"
    )
    zero = path.with_name("zero.csv")
    zero.write_text("id,lower,upper,size\na,0,1,0\n")
    answer = compare(zero, "--planners", "high", "--plugin", path, "--json")
    assert answer.exit_code == 0, answer.output
    (result,) = only_object(answer.stdout)["instances"][0]["results"]
    assert (result["peak"], result["lower_bound"], result["gap_to_bound"]) == (8, 0, None)


BESIDE_RESULTS = {"results", "reference", "online"}


def flat(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what `--json` says, one object a row, as a reader of CSV would have it."""
    shared = {"version": answer["version"], **answer["budget"], **answer["environment"]}
    rows = []
    for instance in answer["instances"]:
        of_instance = {k: v for k, v in instance.items() if k not in BESIDE_RESULTS}
        rows += [{**shared, **of_instance, **result} for result in instance["results"]]
    return rows


def test_csv_has_all_that_json_has(small: Path, tmp_path: Path) -> None:
    other = tmp_path / 'other, "small".json'
    other.write_bytes(small.read_bytes())
    patterns = "naive,greedy-size-first,greedy-size-first:chain_rule=paper"
    given = (small, other, "--planners", patterns, "--seed", "7", "--capacity", "12B")
    rows = list(csv.DictReader(io.StringIO(compare(*given, "--csv").stdout)))
    expected = flat(only_object(compare(*given, "--json").stdout))
    assert len(rows) == len(expected) == 6
    for row, values in zip(rows, expected, strict=True):
        assert row.keys() == values.keys()
        for key, value in values.items():
            if key.endswith("seconds") and key != "time_limit_seconds":
                assert float(row[key]) >= 0
            elif isinstance(value, str):
                assert row[key] == value
            else:
                assert (json.loads(row[key]) if row[key] else None) == value, key
    # What tells one row from every other.
    keys = ("file", "label", "parameters", "capacity", "seed")
    assert len({tuple(row[key] for key in keys) for row in rows}) == 6
    assert {(row["capacity"], row["seed"]) for row in rows} == {("12", "7")}


def test_the_first_columns_of_csv_stay_where_they_are(small: Path) -> None:
    header = compare(small, "--planners", "naive", "--csv").stdout.splitlines()[0]
    assert header.startswith(
        "instance,planner,status,peak,lower_bound,certificate,gap_to_bound,gap_to_best,seconds,"
        "cpu_seconds,valid,reason,"
    )


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("planner", ["greedy-size-first", "many-objects-size-first", "naive"]),
        ("peak", ["many-objects-size-first", "greedy-size-first", "naive"]),
        ("gap", ["many-objects-size-first", "greedy-size-first", "naive"]),
        ("chosen", ["naive", "many-objects-size-first", "greedy-size-first"]),
        ("status", ["many-objects-size-first", "greedy-size-first", "naive"]),
    ],
)
def test_rows_are_sorted_with_ties_as_chosen(small: Path, key: str, expected: list[str]) -> None:
    patterns = "naive,many-objects-size-first,greedy-size-first"
    answer = compare(small, "--planners", patterns, "--sort", key, "--json")
    results = only_object(answer.stdout)["instances"][0]["results"]
    assert [result["planner"] for result in results] == expected


def test_rows_are_sorted_by_time(small: Path) -> None:
    answer = compare(small, "--sort", "seconds", "--json", *QUICK)
    seconds = [r["seconds"] for r in only_object(answer.stdout)["instances"][0]["results"]]
    assert seconds == sorted(seconds)


def test_a_pattern_sets_parameters(small: Path) -> None:
    patterns = "greedy-size-*:chain_rule=paper"
    answer = compare(small, "--planners", patterns, "--json")
    results = only_object(answer.stdout)["instances"][0]["results"]
    assert [result["parameters"] for result in results] == [{"chain_rule": "paper"}] * 2
    assert results[0]["label"] == "greedy-size-first:chain_rule=paper"


def test_an_unsupported_problem_has_its_reason(pinned: Path) -> None:
    answer = compare(pinned, "--planners", "naive,greedy-size-first")
    assert answer.exit_code == 0
    row = next(line for line in answer.stdout.splitlines() if "  naive" in line)
    assert row.split()[:4] == ["naive", "unsupported", "-", "-"]
    assert "naive: unsupported, pinned tensors: " in answer.stdout
    answer = compare(pinned, "--planners", "naive", "--capacity", "1", "--json")
    (result,) = only_object(answer.stdout)["instances"][0]["results"]
    assert result["status"] == "unsupported"


def test_an_invalid_plan_is_named_and_exits_1(small: Path, plugin: Plugin) -> None:
    path = plugin(WRONG_PLAN)
    answer = compare(small, "--planners", "naive,all-*", "--plugin", path)
    assert answer.exit_code == 1
    assert "all-at-zero: invalid, unsafe tensors share bytes: tensor " in answer.stdout
    row = next(line for line in answer.stdout.splitlines() if line.startswith("   all-at-zero"))
    assert row.split()[1:-1] == ["invalid", "-", "-", "-", "-"]
    assert next(line for line in answer.stdout.splitlines() if "*" in line).split()[1] == "naive"


def test_parameters_that_json_cannot_hold_become_text(small: Path, plugin: Plugin) -> None:
    path = plugin(
        "@planners.register('odd')\n"
        "def odd(problem, budget, limit=float('inf'), kind=int):\n"
        "    return planners.place(problem)\n"
    )
    answer = compare(small, "--planners", "odd", "--plugin", path, "--json", "--time-limit", "inf")
    parsed = only_object(answer.stdout)
    parameters = parsed["instances"][0]["results"][0]["parameters"]
    assert parameters == {"limit": "inf", "kind": "<class 'int'>"}
    assert parsed["budget"]["time_limit_seconds"] is None


def test_list_has_one_line_for_each_planner(plugin: Plugin) -> None:
    path = plugin(
        "planners.register_sort_key('longest-first', lambda p: p.start - p.end, summary='Long')"
    )
    answer = compare("--list", "--plugin", path)
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert " ".join(lines[0].split()) == "naive Every block after the one before; no reuse"
    assert lines[-1].startswith("longest-first")
    assert lines[-1].endswith("Long [fit=first, objects=False, chain_rule=exact]")
    assert len(compare("--list", "--planners", "greedy-*").stdout.splitlines()) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: no instance file named; give at least one, or --list for the planners"),
        (["SMALL", "--planners", "gredy-size-first"], "did you mean 'greedy-size-first'"),
        (["SMALL", "--planners", "naive:depth=3"], "planner naive has no parameter 'depth'"),
        (["SMALL", "--json", "--csv"], "--json and --csv: one of the two is needed"),
        (["SMALL", "--time-limit", "nan"], "time limit: seconds of at least 0"),
        (["SMALL", "--threads", "0"], "threads: 1 to 2**31 - 1 is needed, found 0"),
        (["SMALL", "--capacity", "24G"], "KiB MiB GiB TiB PiB EiB by 1024), found '24G'"),
        (["SMALL", "--plugin", "missing.py"], "plugin missing.py: a Python file is needed"),
        (["SMALL", "SMALL", "--save-plan", "x.json"], "--save-plan: one instance is needed"),
        (["SMALL", "--save-plan", "no/where.json"], "the folder no does not exist"),
        (["SMALL", "--plot", "a.xyz"], ".svg or .svgz or .tif or .tiff"),
        (["SMALL", "--html", "a.pdf"], "a page is written as .html or .htm, found the name"),
        (["SMALL", "--memory-limit", "5"], "--memory-limit: it needs --isolate, give both"),
        (["SMALL", "--isolate", "--memory-limit", "-5"], "--memory-limit: "),
        (["SMALL", *QUICK, "--capacity", "1", "--save-plan", "x.json"], "no plan that fits"),
        (["missing.json"], "missing.json: the file cannot be read: No such file or directory"),
        (["/"], "/: the file cannot be read: Is a directory"),
    ],
)
def test_errors_are_one_line_and_exit_2(small: Path, arguments: list[str], message: str) -> None:
    answer = compare(*[str(small) if word == "SMALL" else word for word in arguments])
    assert answer.exit_code == 2
    assert message in answer.stderr
    assert answer.stderr.startswith("error: ")
    assert answer.stderr.count("\n") == 1


def test_a_bad_file_is_reported_and_the_others_run(
    small: Path, empty: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("id,lower,upper,size\nx,3,3,1\n")
    answer = compare(small, bad, empty, *QUICK, "--json")
    assert answer.exit_code == 2
    names = [entry["instance"] for entry in only_object(answer.stdout)["instances"]]
    assert names == ["small", "empty"]
    assert answer.stderr == (
        f"error: {bad}: line 2, column upper: above lower, 3, is needed (the end is exclusive), "
        f"found 3\n"
    )


def test_the_best_plan_is_saved_and_read_back(small: Path, tmp_path: Path) -> None:
    target = tmp_path / "best.json"
    answer = compare(small, *QUICK, "--save-plan", target)
    assert answer.exit_code == 0, answer.output
    result = read_plan(read_gapless_json(small), target)
    assert (result.planner, result.peak, result.certificate) == (
        "greedy-size-first", 10, "lifetime",
    )  # fmt: skip


def test_instances_and_files_of_one_name_are_told_apart(
    small: Path, empty: Path, tmp_path: Path
) -> None:
    answer = compare(small, empty, "--planners", "naive")
    assert "\n\nempty: 0 tensors, 1 stream, 0 chains; " in answer.stdout
    other = tmp_path / "other" / small.name
    other.parent.mkdir()
    other.write_bytes(small.read_bytes())
    lines = compare(small, other, "--planners", "naive").stdout.splitlines()
    assert [line for line in lines if line.endswith(small.name)] == [str(small), str(other)]
    assert str(small) not in compare(small, "--planners", "naive").stdout
