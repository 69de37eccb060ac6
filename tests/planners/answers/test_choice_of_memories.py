"""A choice of memories, prices and classes: auto and cp-sat against brute force."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from planners import Budget, Problem, Safety, Status, get
from planners.judged_run import answered
from planners.referee.judge import judge_all
from planners.testing.contract import WITH_A_PLAN
from planners.testing.random_problems import (
    random_problem,
    with_classes,
    with_memories,
    with_prices,
)
from tests.planners.exhaustive import least_cost
from tests.slow import one_by_one

pytestmark = pytest.mark.core


FEATURES = frozenset({"alignment", "chains", "gaps", "zero"})
# Limits the bytes of a problem for brute force, which tries all offsets.
MOST_BYTES = 10


def contested(seed: str, safety: Safety) -> Problem | None:
    """Return a random problem with prices, and often with classes and memories; None if large."""
    rng = Random(seed)
    drawn = random_problem(rng, safety, (2, 5), features=FEATURES)
    if drawn.naive_bytes > MOST_BYTES or (drawn.alignment > 2).any():
        return None
    problem = with_prices(rng, drawn)
    if rng.random() < 0.4:
        problem = with_classes(rng, problem)
    return with_memories(rng, problem) if rng.random() < 0.8 else problem


# About a quarter of the seeds are problems: 20,000 in all.
@one_by_one("seeds", [range(first, first + 400) for first in range(0, 27_600, 400)], first=1)
@pytest.mark.parametrize("safety", Safety)
def test_the_least_cost_is_that_of_brute_force(safety: Safety, seeds: range) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        problem = contested(f"{safety} {seed}", safety)
        if problem is None or not problem.cost_decides:
            continue
        least = least_cost(problem)
        seen["problems"] += 1
        seen["pays"] += bool(least)
        for planner in ("auto", "cp-sat"):
            answer = answered(problem, get(planner), Budget(node_limit=2000))
            result, found = judge_all(problem, [answer])[0], answer.found
            if result.status is Status.UNSUPPORTED:
                assert "group of several sizes" in result.reason
                seen["refused"] += 1
                continue
            where = f"{planner}, {safety}, seed {seed}"
            assert (result.cost if result.status in WITH_A_PLAN else None) == least, where
            assert least is None or found.cost_bound <= least, where
            if planner == "cp-sat":
                proven = Status.INFEASIBLE if least is None else Status.OPTIMAL
                assert result.status is proven, where
                seen[found.cost_certificate] += 1
    assert seen["refused"] <= seen["problems"] / 2
    assert min(seen["pays"], seen["cp-sat"], seen["places"]) >= len(seeds) / 200
