"""A plan within the capacity that costs less, and a bound on the cost, in turns until they meet."""

from __future__ import annotations

import time
from dataclasses import replace

from planners.exact.least_cost.least_cost import Decide, LeastCost, has_plan_that_fits
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.problem import Problem
from planners.search.reuse_search import with_least_cost

# The first turn gets this share of the time, and each pair of turns twice as much as the one
# before. A guess.
FIRST_SHARE = 1 / 30


def with_cost_turns(problem: Problem, budget: Budget, found: Findings, decide: Decide) -> Findings:
    """Return findings whose plan costs no more than theirs, with a bound on the cost.

    Without a time limit the search and the proof have one turn each.
    """
    if not has_plan_that_fits(problem, found):
        return found
    seconds, turn = FIRST_SHARE * budget.remaining_seconds(), 0
    proof = LeastCost(problem, decide)
    while True:
        found = with_least_cost(problem, _turn(budget, seconds, turn), found)
        if not found.reason or found.interrupted:
            return found
        found = proof.findings(_turn(budget, seconds, turn), found)
        is_over = budget.time_limit_seconds is None or budget.remaining_seconds() == 0
        if not found.reason or found.interrupted or is_over:
            return found
        seconds, turn = 2 * seconds, turn + 1


def _turn(budget: Budget, seconds: float, turn: int) -> Budget:
    deadline = min(budget.deadline, time.monotonic() + seconds)
    return replace(budget, deadline=deadline, seed=(budget.seed + turn) % (1 << 31))
