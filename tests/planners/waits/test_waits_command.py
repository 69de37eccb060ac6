"""``compare FILE --waits A..B``: what it shows, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from planners import Problem, check, read_plan, read_problem, write_problem
from planners.compare.__main__ import app
from planners.waits.waits_frontier import WaitsFrontier
from tests.planners.waits.graphs import brute_force, random_problem

PROBLEM = random_problem(1)


def asked(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    write_problem(PROBLEM, path)
    return path


def test_a_frontier_is_shown_recorded_drawn_and_written(file: Path, tmp_path: Path) -> None:
    plan, picture = tmp_path / "plan.json", tmp_path / "picture.svg"
    found = asked(file, "--waits", "0..3", "--json", "--save-plan", plan, "--plot", picture)
    assert found.exit_code == 0, found.output
    points = json.loads(found.output)["points"]
    assert [point["peak"] for point in points] == brute_force(PROBLEM, 3)
    assert points[-1]["peak"] < points[0]["peak"]
    with_waits = read_problem(tmp_path / "plan.instance.json")
    result = read_plan(with_waits, plan)
    assert result.plan is not None
    check(with_waits, result.plan)
    assert with_waits.graph is not None
    arcs = [[wait["after"]["node"], wait["before"]["node"]] for wait in points[-1]["arcs"]]
    assert with_waits.graph.control[-len(arcs) :].tolist() == arcs
    assert picture.stat().st_size > 1000
    table = asked(file, "--waits", "3").output
    assert table.count(" waits for ") == len(arcs)
    assert all(f"node {v} (op, stream" in table for _, v in arcs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--waits", "5..2"], "A..B with A <= B"),
        (["--waits", "few"], "such as 0..20; found 'few'"),
        (["--waits", "1", "--csv"], "--waits and --csv: leave one out"),
        (["--waits", "1", "--planners", "naive"], "--waits and --planners"),
        (["--waits", "1", "--save-plan", "plan.txt"], "a plan"),
    ],
)
def test_what_makes_no_sense_is_refused(file: Path, options: list[str], message: str) -> None:
    found = asked(file, *options)
    assert found.exit_code == 2
    assert message in found.output


def test_a_problem_without_streams_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "intervals.json"
    write_problem(Problem(size=[1], start=[0], end=[1]), path)
    found = asked(path, "--waits", "0..2")
    assert found.exit_code == 2
    assert "a graph with several streams is needed" in found.output


def test_ctrl_c_keeps_the_frontier_so_far(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = WaitsFrontier._bounded

    def interrupted(frontier: WaitsFrontier, point: object) -> object:
        if point.count == 2:  # type: ignore[attr-defined]
            raise KeyboardInterrupt
        return whole(frontier, point)  # type: ignore[arg-type]

    monkeypatch.setattr(WaitsFrontier, "_bounded", interrupted)
    found = asked(file, "--waits", "0..3", "--json")
    assert found.exit_code == 130
    assert [point["waits"] for point in json.loads(found.stdout)["points"]] == [0, 1]
