"""Looks for a plan whose places and reuse of bytes cost least."""

from __future__ import annotations

from dataclasses import replace

from planners.greedy.reuse_start import MOST_BLOCKS, reuse_search
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.places import block_ranges, least_place_costs
from planners.model.plan import Plan
from planners.model.problem import Problem

# Attempts of one call, after which the search looks at its limits. Without a time limit it ends
# after PATIENCE attempts without a better plan. Guesses.
ATTEMPTS_A_CALL = 10_000
PATIENCE = 100_000


def with_least_cost(problem: Problem, budget: Budget, found: Findings) -> Findings:
    """Return findings whose plan costs no more than theirs; theirs fits, or they have none.

    The search ends early where the plan costs no more than is proven. A node limit counts its
    attempts, besides those that the findings took.
    """
    if problem.blocks.count > MOST_BLOCKS:
        return replace(found, reason=f"more than {MOST_BLOCKS} blocks: no search for a lower cost")
    ranges = block_ranges(problem)
    goal, certificate = found.cost_bound, found.cost_certificate
    must_pay = sum(least_place_costs(ranges).values())
    if must_pay > goal:
        goal, certificate = must_pay, "places"
    search = reuse_search(problem, ranges, found.plan, budget.seed)
    attempts = idle = 0
    reason = f"the search ended before it found a plan of cost {goal}"
    try:
        while True:
            most = ATTEMPTS_A_CALL
            if budget.node_limit is not None:
                most = min(most, budget.node_limit - attempts)
            before = search.best()[:2]
            made = search.run(most, goal, budget.remaining_seconds())
            attempts += made
            idle = 0 if search.best()[:2] < before else idle + made
            if made < ATTEMPTS_A_CALL or (budget.time_limit_seconds is None and idle >= PATIENCE):
                break
    except TimeoutError:
        reason = "time limit"
    except KeyboardInterrupt:
        found, reason = replace(found, interrupted=True), "interrupted"
    bytes_out, cost, heads = search.best()
    return replace(
        found,
        plan=None if bytes_out else Plan.of_blocks(problem, heads),
        reason="" if (bytes_out, cost) == (0, goal) else reason,
        statistics={**found.statistics, "reuse_attempts": attempts},
        cost_bound=goal,
        cost_certificate=certificate,
    )
