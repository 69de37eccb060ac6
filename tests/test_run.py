"""Running a planner: what is measured of it."""

from __future__ import annotations

import resource
import subprocess
import sys

from planners import Budget, Plan, Problem, run
from planners.greedy.place import place
from planners.registry import ChosenPlanner, PlannerInfo

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
