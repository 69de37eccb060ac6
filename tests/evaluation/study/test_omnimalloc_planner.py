"""The other package as a planner of a study: judged as ours are, with a cost of its own."""

from __future__ import annotations

import pytest

from evaluation.study.plugins import load_plugins
from evaluation.study.study_file import find_study
from instances.synthetic import random_lifetimes
from planners import Status, place
from planners.judged_run import run
from planners.registry import choose_one


@pytest.mark.bench
def test_its_plan_is_judged_and_its_own_cost_is_told() -> None:
    load_plugins(find_study("peers").plugins)
    problem = random_lifetimes(50, seed=1)
    result = run(problem, choose_one("omnimalloc:allocator=greedy_by_size"))
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    # The same order and the same fit.
    assert result.peak == place(problem, "size", "first").peak
    seconds = float(result.statistics["placing_seconds"])
    assert 0 <= seconds <= result.cpu_seconds
    assert float(result.statistics["placing_bytes"]) >= 0
