"""Planners of this package keep more than the contract of all planners."""

from __future__ import annotations

import math

import pytest

from instances.synthetic import training_graph
from planners import read_problem, registry
from planners.greedy import portfolio
from planners.judged_run import run
from planners.model import bounds as bounds_module
from planners.model import budget as budget_module
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.plan import Status
from planners.model.problem import Problem
from planners.testing.contract import require_contract
from tests.slow import one_by_one

NAMES = [info.name for info in registry.planners()]
# Beside `auto`: never worse than the best greedy plan that the time is enough for.
NEVER_WORSE = ["branch-and-bound", "cp-sat", "ilp-highs", "ilp-cbc"]
WITH_A_PLAN = (Status.OPTIMAL, Status.FEASIBLE)
PROBLEMS_OF_A_KIND = 25
# Planners that search answer these problems in milliseconds; the limit is for a bad day.
ENOUGH_SECONDS = 20.0


class Clock:
    """A clock that slow bounds turn; each reading turns it a little."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 2e-5
        return self.now

    def slow_bound(self, _problem: Problem, seconds: float = math.inf) -> Bound:
        """Take all the time that is given, and prove nothing."""
        self.now += seconds if math.isfinite(seconds) else 0
        raise TimeoutError


@one_by_one("seconds", [0.2, 1.0], first=1)
@pytest.mark.parametrize("name", ["auto", "pressure", "homosize", *NEVER_WORSE])
def test_a_slow_bound_costs_no_plan(
    name: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    for module in (budget_module, portfolio):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(bounds_module, "antichain_bound", clock.slow_bound)
    problem = training_graph(200, streams=2, chains=10, chain_length=8, seed=200)
    best = min(
        run(problem, chosen).peak or 0
        for chosen in registry.choose("greedy-*,many-objects-*")
        if chosen.info.name != name
    )
    # A planner that asks again and again reads the clock again and again, and so it ends.
    result = run(problem, registry.get(name), Budget(time_limit_seconds=seconds))
    require_contract(problem, result)
    assert result.peak is not None
    assert result.peak <= best or name in ("pressure", "homosize")


@one_by_one("seconds", [0.2, 1.0], first=1)
@one_by_one("instance", ["pangu-13b", "qwen2-moe-sharded"], first=1)
def test_the_largest_graphs_get_a_plan_in_a_second(instance: str, seconds: float) -> None:
    whole = read_problem(f"instances/{instance}.json.gz")
    _ = whole.core
    rows = [
        run(whole, chosen, Budget(time_limit_seconds=seconds))
        for chosen in registry.choose("many-objects-size-first,greedy-size-first")
    ]
    for name in ("auto", *NEVER_WORSE):
        budget = Budget(time_limit_seconds=seconds)
        result = run(whole.with_capacity(None), registry.get(name), budget)
        if result.peak is None:
            # A busy machine may take a fifth of a second away before anything begins.
            assert seconds == 0.2, result.reason
            continue
        assert result.status is Status.FEASIBLE, result.reason
        assert result.peak < whole.naive_bytes
        # What took no more than a tenth of the limit had its turn, however busy the machine.
        for row in rows:
            if row.peak is not None and row.seconds < seconds / 10:
                assert result.peak <= row.peak


def test_every_built_in_planner_is_described() -> None:
    for info in registry.planners():
        assert info.summary, info.name
        assert "\n" not in info.summary
