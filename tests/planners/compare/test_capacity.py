"""The question of ``--capacity``: one verdict an instance, and an exit status that says it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from planners.model.problem import Problem
from tests.planners.compare.conftest import compare, written

Plugin = Callable[[str], Path]

QUICK = "naive,greedy-size-*,greedy-breadth-first"
FITS, DOES_NOT_FIT, NOT_KNOWN = 0, 3, 4


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """Return the file of a problem whose optimum, 3, is above its bound, 2.

    Five tensors around a ring, each unsafe with the next: an odd ring has no two colours.
    """
    pairs = [(i, (i + 1) % 5) for i in range(5)]
    return written(Problem([1] * 5, unsafe_pairs=pairs, name="ring"), tmp_path / "ring.json")


@pytest.mark.parametrize(
    ("instance", "planners", "capacity", "status", "said"),
    [
        ("small", QUICK, "12B", FITS, "fits, shown by greedy-size-first: peak 10 B (10)"),
        ("small", QUICK, "9", DOES_NOT_FIT, "does not fit, proven by lifetime: at least 10 B (10)"),
        ("ring", "greedy-size-first,branch-and-bound", "2", DOES_NOT_FIT,
         "does not fit, proven by branch-and-bound: at least 3 B (3) are needed"),
        ("ring", QUICK, "2", NOT_KNOWN,
         "not known whether it fits: the best plan needs 3 B (3), and no more than 2 B (2) is "
         "proven to be needed"),
        ("pinned", "naive", "1", DOES_NOT_FIT, "does not fit, proven by lifetime: "),
        ("pinned", "naive", "100", NOT_KNOWN, "not known whether it fits: no plan "),
    ],
)  # fmt: skip
def test_the_last_line_has_the_verdict_with_its_evidence(
    instance: str, planners: str, capacity: str, status: int, said: str,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    file = request.getfixturevalue(instance)
    answer = compare(file, "--planners", planners, "--capacity", capacity)
    assert answer.exit_code == status
    assert answer.stdout.splitlines()[-1].startswith(f"{instance}: {said}")
    assert answer.stdout.count(f"{instance}: ") == 2


def test_a_proof_that_nothing_fits_is_said_once(small: Path) -> None:
    answer = compare(small, "--planners", QUICK, "--capacity", "9")
    assert len(answer.stdout.split("naive ")[-1].splitlines()[1:]) == 1


def test_a_capacity_of_the_file_asks_as_well(tmp_path: Path) -> None:
    problem = Problem([4, 4], [0, 0], [1, 1], capacity=7, name="file")
    path = written(problem, tmp_path / "file.json")
    assert compare(path, "--planners", QUICK).exit_code == DOES_NOT_FIT
    assert compare(path, "--planners", QUICK, "--capacity", "8").exit_code == FITS


def test_without_a_capacity_there_is_no_verdict(small: Path) -> None:
    answer = compare(small, "--planners", QUICK, "--json")
    assert answer.exit_code == 0
    (instance,) = json.loads(answer.stdout)["instances"]
    assert (instance["capacity"], instance["verdict"], instance["verdict_by"]) == (None, None, None)


@pytest.mark.parametrize(
    ("capacity", "verdict", "by"),
    [("12", "fits", "greedy-size-first"), ("1", "does_not_fit", "clique"), ("2", "not_known", "")],
)
def test_programs_read_the_verdict(ring: Path, capacity: str, verdict: str, by: str) -> None:
    given = (ring, "--planners", "naive,greedy-size-first", "--capacity", capacity)
    (instance,) = json.loads(compare(*given, "--json").stdout)["instances"]
    assert (instance["verdict"], instance["verdict_by"] or "") == (verdict, by)
    rows = list(csv.DictReader(io.StringIO(compare(*given, "--csv").stdout)))
    assert {(row["verdict"], row["verdict_by"], row["capacity"]) for row in rows} == {
        (verdict, by, capacity)
    }


def test_of_several_instances_the_status_says_whether_all_fit(
    small: Path, ring: Path, tmp_path: Path, plugin: Plugin
) -> None:
    """Small needs 10 bytes, the ring 3, of which greedy planners prove 2."""
    one = written(Problem([1], [0], [1], name="one"), tmp_path / "one.json")
    quick = ("--planners", "greedy-size-first")
    assert compare(one, ring, *quick, "--capacity", "3").exit_code == FITS
    assert compare(one, ring, *quick, "--capacity", "2").exit_code == NOT_KNOWN
    assert compare(ring, small, one, *quick, "--capacity", "2").exit_code == DOES_NOT_FIT
    missing = tmp_path / "missing.json"
    assert compare(small, missing, *quick, "--capacity", "2").exit_code == 2
    wrong = plugin(
        "@planners.register('at-zero')\n"
        "def at_zero(problem, budget):\n"
        "    return planners.Plan.of(problem, [0] * problem.tensor_count)\n"
    )
    given = ("--planners", "at-zero,naive", "--plugin", wrong, "--capacity", "2")
    assert compare(small, *given).exit_code == 1
    assert compare(small, missing, *given).exit_code == 2


def test_a_reason_that_many_share_is_said_once(small: Path, plugin: Plugin) -> None:
    path = plugin(
        "for name in ('one', 'two'):\n"
        "    planners.register(name)(lambda problem, budget: planners.no_plan_found('no luck'))\n"
    )
    lines = compare(small, "--planners", "one,two,naive", "--plugin", path).stdout.splitlines()
    assert lines[-1] == "one, two: no_plan_found, no luck"


def test_a_planner_that_does_not_fit_has_the_reason_of_its_end(small: Path, plugin: Plugin) -> None:
    path = plugin(
        "from dataclasses import replace\n"
        "@planners.register('late')\n"
        "def late(problem, budget):\n"
        "    plan = planners.Plan.of(problem, [0, 6, 10, 14, 16])\n"
        "    return replace(planners.no_plan_found('time is up'), plan=plan)\n"
    )
    given = (small, "--planners", "late,naive", "--plugin", path, "--capacity", "15")
    *_, reason, verdict = compare(*given).stdout.splitlines()
    assert reason == "late: no_plan_found, time is up"
    assert verdict.startswith("small: not known whether it fits: the best plan needs 19 B (19), ")
