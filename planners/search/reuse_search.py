"""Looks for a plan within the capacity whose reuse of bytes costs least."""

from __future__ import annotations

from dataclasses import replace

from planners import _core
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.model.problem import Problem, Scalar

# Limits the blocks of a problem: the search keeps a link for each unsafe or priced pair. A guess.
MOST_BLOCKS = 5_000
# Attempts of one call, after which the search looks at its limits. Without a time limit it ends
# after PATIENCE attempts without a cheaper plan. Guesses.
ATTEMPTS_A_CALL = 10_000
PATIENCE = 100_000


def with_least_cost(problem: Problem, budget: Budget, found: Findings) -> Findings:
    """Return findings whose plan costs no more than theirs, if theirs is within the capacity.

    The search ends early where the plan costs no more than is proven.

    Note [Ruin and recreate] in ``reuse_search.h`` describes the search. A node limit counts its
    attempts, besides those that the findings took.
    """
    plan, capacity = found.plan, problem.capacity
    if plan is None or capacity is None or plan.peak > capacity or found.interrupted:
        return found
    if problem.blocks.count > MOST_BLOCKS:
        return replace(found, reason=f"more than {MOST_BLOCKS} blocks: no search for a lower cost")
    blocks = problem.blocks
    heads = plan.offsets[blocks.members[blocks.indptr[:-1]]] - blocks.before[blocks.indptr[:-1]]
    search = _core.ReuseSearch(
        problem.core.with_rows(), problem.reuse_prices, capacity, heads, budget.seed
    )
    statistics: dict[str, Scalar] = {"first_cost": search.least_cost}
    attempts = idle = 0
    reason = "the search ended before it found a plan of the proven least cost"
    try:
        while search.least_cost > found.cost_bound:
            most = ATTEMPTS_A_CALL
            if budget.node_limit is not None:
                most = min(most, budget.node_limit - attempts)
            if most == 0 or (budget.time_limit_seconds is None and idle >= PATIENCE):
                break
            before = search.least_cost
            made = search.run(most, found.cost_bound, budget.remaining_seconds())
            attempts += made
            idle = 0 if search.least_cost < before else idle + made
    except TimeoutError:
        reason = "time limit"
    except KeyboardInterrupt:
        found, reason = replace(found, interrupted=True), "interrupted"
    statistics |= {"reuse_attempts": attempts}
    return replace(
        found,
        plan=Plan.of_blocks(problem, search.best_heads()),
        reason="" if search.least_cost == found.cost_bound else reason,
        statistics={**found.statistics, **statistics},
    )
