"""The command: what it says, what it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import Result

from instances.__main__ import app
from planners import Graph, Problem, read_problem, write_problem
from planners.compare.__main__ import app as compare_app
from tests.command_line import run_command

pytestmark = pytest.mark.core


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    """Return the file of two branches listed side by side: 17 bytes, and 10 one by one."""
    graph = Graph(
        op=["input", "up 1", "up 2", "down 1", "down 2", "join"],
        stream=[0] * 6,
        producer=[0, 1, 2, 3, 4],
        consumers=[[1, 2], [3], [4], [5], [5]],
    )
    path = tmp_path / "branches.json"
    write_problem(Problem([1, 8, 8, 1, 1], graph=graph, name="branches"), path)
    return path


@pytest.fixture
def lifetimes(tmp_path: Path) -> Path:
    """Return the file of a problem that has one order alone."""
    path = tmp_path / "lifetimes.json"
    write_problem(Problem([1], [0], [1], name="lifetimes"), path)
    return path


def reorder(*arguments: str | Path) -> Result:
    return run_command(app, "reorder", *arguments)


def compare(*arguments: str | Path) -> Result:
    return run_command(compare_app, "--planners", "greedy-size-first", *arguments)


def test_the_line_says_both_orders_and_the_proof(branches: Path) -> None:
    done = reorder(branches)
    assert done.exit_code == 0
    assert done.stdout.startswith(
        "branches: lifetime bound 17 B (17) in the given order, 10 B (10) in the new one; "
        "7 B (7) saved (41.176%); optimal, proven by "
    )


def test_writes_the_problem_in_the_new_order(branches: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.json"
    done = reorder(branches, "-o", target, "--node-limit", "100")
    assert done.stdout.endswith(f"written: {target}\n")
    given, new = read_problem(branches), read_problem(target)
    assert given.graph is not None
    assert new.graph is not None
    assert sorted(new.graph.op) == sorted(given.graph.op)
    assert new.graph.op != given.graph.op
    assert new.size.tolist() == given.size.tolist()


def test_json_has_every_field(branches: Path) -> None:
    found = json.loads(reorder(branches, "--json", "--seed", "5").stdout)
    assert {key: found[key] for key in ("bound", "given", "reordered", "saved", "seed")} == {
        "bound": "lifetime", "given": 17, "reordered": 10, "saved": 7, "seed": 5,
    }  # fmt: skip
    assert (found["status"], found["least"]) == ("optimal", 10)


def test_a_problem_without_a_graph_is_refused(lifetimes: Path) -> None:
    for done in (reorder(lifetimes), compare(lifetimes, "--reorder")):
        assert done.exit_code == 2
        assert "a graph is needed" in done.stderr


def test_the_file_that_is_read_is_not_written_onto(branches: Path) -> None:
    done = reorder(branches, "-o", branches)
    assert done.exit_code == 2
    assert "--output" in done.stderr


def test_a_comparison_plans_the_new_order_and_says_so(branches: Path) -> None:
    plain, reordered = compare(branches), compare(branches, "--reorder")
    assert "in another order" not in plain.stdout
    assert "branches: in another order (optimal), 7 B (7) below the 17 B (17) " in reordered.stdout
    assert "bounds: lifetime 10 B (10)" in reordered.stdout


def test_records_of_a_comparison_have_the_reordering(branches: Path) -> None:
    (plain,) = json.loads(compare(branches, "--json").stdout)["instances"]
    (reordered,) = json.loads(compare(branches, "--json", "--reorder").stdout)["instances"]
    assert plain["reordering"] is None
    assert reordered["reordering"]["saved"] == 7
    assert reordered["bounds"]["lifetime"] == reordered["reordering"]["reordered"] == 10
    assert reordered["results"][0]["peak"] >= 10


def test_a_plan_of_an_order_that_no_file_has_is_not_saved(branches: Path, tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    done = compare(branches, "--reorder", "--save-plan", target)
    assert done.exit_code == 2
    assert "gapless instances reorder FILE -o NEW.json" in done.stderr
    assert not target.exists()
