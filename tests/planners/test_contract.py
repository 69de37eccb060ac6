"""Planners of this package keep more than the contract of all planners."""

from __future__ import annotations

import math

import pytest

from instances.synthetic import training_graph
from planners import registry
from planners.greedy import portfolio
from planners.judged_run import run
from planners.model import bounds as bounds_module
from planners.model import budget as budget_module
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.problem import Problem
from planners.testing.contract import require_contract
from tests.slow import one_by_one

NAMES = [info.name for info in registry.planners()]
# Beside `auto`: never worse than the best greedy plan that the time is enough for.
NEVER_WORSE = ["branch-and-bound", "cp-sat", "ilp-highs", "ilp-cbc"]


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


def test_every_built_in_planner_is_described() -> None:
    for info in registry.planners():
        assert info.summary, info.name
        assert "\n" not in info.summary
