"""Running a planner: what is measured of it."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import replace

from planners import Budget, Plan, Problem, Result, Status, bounds_of, run
from planners.greedy.place import place
from planners.plan import no_plan_found
from planners.registry import ChosenPlanner, PlannerInfo
from planners.run import with_bounds

BUSY = "sum(range(3_000_000))"


def test_processor_time_of_child_processes_counts() -> None:
    spent = []

    def plan(problem: Problem, _budget: Budget) -> Plan:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([sys.executable, "-c", BUSY], check=True)
        spent.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
        return place(problem)

    info = PlannerInfo("outside", "", "", {}, lambda: plan)
    problem = Problem([1], [0], [1])
    own = run(ChosenPlanner(info, {}), problem).cpu_seconds
    assert 0 < spent[0] <= own


def test_a_plan_above_the_capacity_says_what_ended_the_planner() -> None:
    def plan(problem: Problem, _budget: Budget) -> Result:
        return replace(no_plan_found("time limit"), plan=Plan.of(problem, [0, 4]))

    problem = Problem([3, 3], [0, 0], [1, 1], capacity=6)
    answer = run(ChosenPlanner(PlannerInfo("late", "", "", {}, lambda: plan), {}), problem)
    assert answer.status is Status.NO_PLAN_FOUND
    assert answer.reason == "the best plan needs 1 bytes more than the capacity of 6; time limit"
    # Held against the bounds, it says so once.
    assert with_bounds(problem, answer, bounds_of(problem)).reason == answer.reason
