"""The frontier of cost against peak is that of brute force, and is refused where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from planners import Budget, Problem, write_problem
from planners.compare.__main__ import app
from planners.compare.frontier_command import cost_frontier
from tests.planners.exact.brute_force import least_cost

pytestmark = pytest.mark.core

PRICED = Problem(
    [4, 4, 2], [0, 2, 4], [2, 4, 6], reuse_prices=[(0, 1, 3), (1, 2, 1), (0, 2, 5)], name="priced"
)


def asked(tmp_path: Path, problem: Problem, *arguments: str) -> Result:
    write_problem(problem, tmp_path / "problem.json")
    return CliRunner().invoke(app, [str(tmp_path / "problem.json"), *arguments])


def test_the_costs_are_those_of_brute_force() -> None:
    points = list(cost_frontier(PRICED, 7, Budget(node_limit=1000)))
    assert [capacity for capacity, _ in points] == [10, 9, 8, 7, 6, 5, 4]
    for capacity, result in points:
        assert result.cost == result.cost_bound == least_cost(PRICED.with_capacity(capacity))


def test_a_frontier_is_shown_and_recorded(tmp_path: Path) -> None:
    shown = asked(tmp_path, PRICED, "--frontier", "2", "--time-limit", "5")
    assert shown.exit_code == 0, shown.output
    assert [line.split()[:2] for line in shown.output.splitlines()[-2:]] == [
        ["*", "10"],
        ["*", "4"],
    ]
    found = asked(tmp_path, PRICED, "--frontier", "2", "--time-limit", "5", "--json")
    assert [point["cost"] for point in json.loads(found.output)["points"]] == [0, 9]


@pytest.mark.parametrize(
    ("problem", "arguments", "message"),
    [
        (PRICED, ["--frontier", "1"], "--frontier: 2 to 1000 capacities are needed, found 1"),
        (Problem([1], [0], [1]), ["--frontier", "2"], "a frontier needs prices of reuse"),
        (PRICED, ["--frontier", "2", "--capacity", "9"], "--frontier and --capacity: leave one"),
        (PRICED, ["--frontier", "2", "--waits", "1"], "--waits and --frontier: leave one out"),
    ],
)
def test_what_has_no_frontier_is_refused(
    tmp_path: Path, problem: Problem, arguments: list[str], message: str
) -> None:
    found = asked(tmp_path, problem, *arguments)
    assert found.exit_code == 2
    assert message in found.output
