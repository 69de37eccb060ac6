"""The contract of a planner, and problems to hold it against."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

from planners import registry
from planners.judged_run import run
from planners.model.bounds import bounds_of
from planners.model.budget import Budget
from planners.model.graph import Graph
from planners.model.memories import Memory
from planners.model.plan import Result, Status
from planners.model.problem import Problem
from planners.referee.naive import find_violation

WITH_A_PLAN = (Status.OPTIMAL, Status.FEASIBLE)
# Planners that search answer these problems in milliseconds; the limit is for a bad day.
ENOUGH_SECONDS = 20.0
# By planner and reason: the problems that it did not support.
UNSUPPORTED: Counter[tuple[str, str]] = Counter()

# Made anew in each test: a problem keeps what the core made of it, and a module lives long.
FIXED = {
    "no tensors": partial(Problem, size=[], start=[], end=[]),
    "one tensor": partial(Problem, size=[5], start=[0], end=[1]),
    "one tensor of no bytes": partial(Problem, size=[0], start=[0], end=[1]),
    "only tensors of no bytes": partial(Problem, size=[0, 0, 0], start=[0, 0, 1], end=[2, 1, 2]),
    "some of no bytes": partial(Problem, size=[0, 3, 0, 2], start=[0] * 4, end=[2] * 4),
    "touching lifetimes": partial(Problem, size=[4, 4, 4], start=[0, 1, 2], end=[1, 2, 3]),
    "large sizes": partial(Problem, size=[2**58, 2**58], start=[0, 0], end=[1, 1]),
    "a graph without tensors": partial(
        Problem, size=[], graph=Graph(op=["a"], stream=[0], producer=[], consumers=[])
    ),
    "two streams": partial(
        Problem,
        size=[4, 4],
        graph=Graph(op=["a", "b", "c"], stream=[0, 1, 0], producer=[0, 1], consumers=[[2], []]),
    ),
    "no unsafe pair": partial(Problem, size=[4, 6], unsafe_pairs=[]),
    "a capacity that fits": partial(Problem, size=[4, 6], start=[0, 0], end=[1, 1], capacity=10),
    "a capacity that does not": partial(Problem, size=[4, 6], start=[0, 0], end=[1, 1], capacity=9),
    "a capacity of nothing": partial(Problem, size=[], start=[], end=[], capacity=0),
    "a chain": partial(
        Problem, size=[4, 6, 2], start=[0, 0, 0], end=[1, 2, 3], contiguous=[(2, 0)]
    ),
    "alignment": partial(Problem, size=[3, 5], start=[0, 0], end=[1, 1], alignment=[8, 16]),
    "a pin": partial(Problem, size=[3, 5], start=[0, 0], end=[1, 1], pinned={0: 2}),
    "pins in conflict": partial(
        Problem, size=[3, 5], start=[0, 0], end=[1, 1], pinned={0: 0, 1: 2}
    ),
    "prices of reuse": partial(
        Problem,
        size=[4, 4, 2],
        start=[0, 2, 4],
        end=[2, 4, 6],
        capacity=6,
        reuse_prices=[(0, 1, 3), (1, 2, 1), (0, 2, 5)],
    ),
    "tensors together, apart and exclusive": partial(
        Problem,
        size=[4, 6, 3, 2],
        start=[0, 0, 0, 2],
        end=[2, 2, 2, 4],
        together=[(0, 1)],
        apart=[(2, 3)],
        exclusive=[(0, 2)],
    ),
    "two memories": partial(
        Problem,
        size=[4, 4, 9],
        start=[0, 2, 0],
        end=[2, 4, 4],
        memories=[Memory("fast", 0, 6, reserved=((1, 2),)), Memory("slow", 8, 9)],
        places=[(0, 0, 0), (1, 0, 3), (2, 1, 7)],
        reuse_prices=[(0, 1, 5)],
    ),
    "a choice of memories": partial(
        Problem,
        size=[4, 4],
        start=[0, 0],
        end=[2, 2],
        memories=[Memory("fast", 0, 4), Memory("slow", 8, 4)],
        places=[(0, 0, 0), (0, 1, 9), (1, 0, 0), (1, 1, 2)],
    ),
    "a gap": partial(Problem, size=[4, 4], start=[0, 1], end=[3, 2], gaps=[(0, 1, 2)]),
}


def answer(name: str, problem: Problem, seconds: float = ENOUGH_SECONDS, seed: int = 0) -> Result:
    budget = Budget(time_limit_seconds=seconds, seed=seed)
    return run(problem, registry.get(name), budget, bounds_of(problem))


def require_contract(problem: Problem, result: Result) -> None:
    """Hold an answer against everything that a planner promises, by the slow referee."""
    assert result.status is not Status.INVALID, result.reason
    assert 0 <= result.seconds < math.inf
    assert 0 <= result.cpu_seconds < math.inf
    if result.status in WITH_A_PLAN:
        assert result.plan is not None
    else:
        assert result.reason
        assert "\n" not in result.reason
    if result.status is Status.UNSUPPORTED:
        assert result.plan is None
        UNSUPPORTED[result.planner, result.reason] += 1
    if result.plan is None:
        return
    assert find_violation(problem, result.plan) is None
    for bound in bounds_of(problem):
        assert result.plan.peak >= bound.bytes
    assert result.plan.peak >= result.lower_bound
    assert result.lower_bound == 0 or result.certificate
    assert result.cost_bound == 0 or result.cost_certificate
    if result.status is Status.OPTIMAL and problem.cost_decides:
        assert result.cost == result.cost_bound
    elif result.status is Status.OPTIMAL:
        assert result.plan.peak == result.lower_bound
        assert result.certificate
    if problem.capacity is not None:
        assert (result.plan.peak <= problem.capacity) == (result.status in WITH_A_PLAN)
