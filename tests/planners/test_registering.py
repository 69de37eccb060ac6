"""The ways of registering a heuristic, each as a user would."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import planners
from planners.model.budget import Budget
from planners.model.plan import Plan, Result, Status
from planners.model.problem import Problem
from tests.installed_package import install

pytestmark = pytest.mark.usefixtures("own_registry")


@pytest.fixture
def problem() -> Problem:
    # Offsets up, time to the right; by length the long low one comes first:
    #   6  0000.2222
    #   2  .111111..
    return Problem(size=[4, 2, 4], start=[0, 1, 5], end=[4, 7, 9])


def run(name: str, problem: Problem, **parameters: str | int | bool) -> Result:
    bounds = planners.bounds_of(problem)
    return planners.run(problem, planners.get(name, **parameters), bounds=bounds)


def test_a_sort_key_in_one_line(problem: Problem) -> None:
    planners.register_sort_key("longest-first", lambda problem: problem.start - problem.end)
    result = run("longest-first", problem)
    assert result.status is Status.OPTIMAL
    assert result.plan is not None
    assert result.plan.offsets.tolist() == [2, 0, 2]
    assert result.parameters == {"fit": "first", "objects": False, "chain_rule": "exact"}


def test_a_sort_key_takes_the_place_of_an_order() -> None:
    def by_size(problem: Problem) -> np.ndarray:
        """Largest first."""
        return -problem.size

    random = np.random.default_rng(35)  # with this one, all four ways of placing differ
    start = random.integers(0, 20, 30)
    size = random.integers(1, 20, 30)
    problem = Problem(size=size, start=start, end=start + random.integers(1, 12, 30))
    planners.register_sort_key("own-size", by_size, fit="best", source="mine")
    info = planners.get("own-size").info
    assert (info.summary, info.source, info.defaults["fit"]) == ("Largest first.", "mine", "best")
    plans = set()
    for fit in ("first", "best"):
        for objects, built_in in ((False, "greedy-size"), (True, "many-objects-size")):
            own = run("own-size", problem, fit=fit, objects=objects).plan
            other = run(f"{built_in}-{fit}", problem).plan
            assert own is not None
            assert other is not None
            assert own.offsets.tolist() == other.offsets.tolist()
            plans.add(tuple(own.offsets.tolist()))
    assert len(plans) == 4


def test_a_sort_key_of_the_wrong_shape_is_invalid_by_name(problem: Problem) -> None:
    planners.register_sort_key("short", lambda _: np.array([1]))
    result = run("short", problem)
    assert result.status is Status.INVALID
    assert "order: one number a tensor is needed" in result.reason


def test_a_function(problem: Problem) -> None:
    @planners.register("shuffled", summary="At random")
    def shuffled(problem: Problem, budget: Budget, tries: int = 3) -> Plan:
        random = np.random.default_rng(budget.seed)
        plans = (planners.place(problem, random.random(3)) for _ in range(tries))
        return min(plans, key=lambda plan: plan.peak)

    assert run("shuffled", problem, tries=20).status is Status.OPTIMAL
    assert shuffled(problem, Budget(), tries=1).peak >= 6  # what is decorated stays as it is


def test_a_class_with_parameters(problem: Problem) -> None:
    @planners.register("lifted")
    class Lifted:
        """Everything above a floor."""

        def __init__(self, floor: int = 0) -> None:
            self.floor = floor

        def __call__(self, problem: Problem, budget: Budget) -> Plan:
            plan = planners.place(problem, budget=budget)
            return Plan.of(problem, plan.offsets + self.floor)

    assert run("lifted", problem).peak == 6
    result = run("lifted", problem, floor=10)
    assert (result.peak, result.parameters) == (16, {"floor": 10})
    assert planners.get("lifted").info.summary == "Everything above a floor."
    assert Lifted(3).floor == 3


PACKAGE = """
import planners

planners.register_sort_key("from-a-package", lambda problem: -problem.size)
"""
BROKEN = "import a_module_that_nobody_has"


def test_an_installed_package_and_a_broken_one(tmp_path: Path) -> None:
    for name, module in (("tiny_planner", PACKAGE), ("broken_planner", BROKEN)):
        install(tmp_path / "site", name, module, "gapless.planners", f"{name} = {name}")
    table = tmp_path / "tiny.csv"
    table.write_text("id,lower,upper,size\na,0,2,4\nb,1,3,5\n")
    code = f"""
        import sys
        sys.path.append({str(tmp_path / "site")!r})
        sys.argv = ["compare", {str(table)!r}, "--planners", "naive,from-*"]
        from planners.compare.__main__ import main
        main()
        """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "*  from-a-package  optimal" in answer.stdout
    assert answer.stderr == (
        "warning: planner package broken_planner (broken_planner) is left out: "
        "ModuleNotFoundError: No module named 'a_module_that_nobody_has'\n"
    )
