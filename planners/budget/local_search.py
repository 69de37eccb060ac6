"""Local search: the relaxed optimum, rounded, and then improved move by move."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from planners import _core
from planners.budget.greedy_repeats import NOT_ENOUGH, greedy_repeats
from planners.budget.knapsacks import knapsack_repeats
from planners.budget.limit_planner import LimitAnswer, LimitQuestion, register
from planners.budget.repeatable_step import Flags
from planners.budget.staged_relaxation import flags_of

# Moves of the first round; each later round has twice as many.
FIRST_MOVES = 4000
# The walk begins at this many times the seconds of an average unit, and ends at this part of it.
WARMTH, COOLNESS = 2.0, 0.005
# Shares of the relaxed optimum from which on a unit runs again.
PARTS = (0.999, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.01)
# Rounds in which nothing became better before the search ends. A guess.
IDLE_ROUNDS = 4


@register("relaxation", summary="what the bound's relaxed optimum repeats for the most part")
def relaxation(question: LimitQuestion) -> LimitAnswer:
    """Repeat the units with the largest shares in the relaxed optimum."""
    repeated = rounded(question)
    return LimitAnswer(None, NOT_ENOUGH) if repeated is None else question.answer(repeated)


def rounded(question: LimitQuestion) -> Flags | None:
    """Return the units whose shares are at least some part, the cheapest part that meets the limit.

    Repeating more does not always free more, so every part is tried.
    """
    step, shares = question.step, question.bound.shares
    found, fewest = None, np.inf
    for part in PARTS:
        flags = (step.is_repeatable & (shares >= part)).astype(np.uint8)
        seconds, peak, _ = step.core.cost(flags, question.limit)
        if peak <= question.limit and seconds < fewest:
            found, fewest = flags, seconds
    return found


@register(
    "local-search", summary="the best of greedy, knapsack and relaxation, improved by local search"
)
def local_search(question: LimitQuestion) -> LimitAnswer:
    """Walk from the best start in rounds of doubling length, until nothing becomes better."""
    step, budget = question.step, question.budget
    starts = (greedy_repeats(question), knapsack_repeats(question), rounded(question))
    known = [start for start in starts if start is not None]
    best = min(known, key=lambda start: step.core.cost(start, question.limit)[0], default=None)
    start = flags_of(step, question.bound) if best is None else best
    moves, idle, tried, round_number = FIRST_MOVES, 0, 0, 0
    least = question.bound.seconds
    while idle < IDLE_ROUNDS and budget.remaining_seconds() > 0:
        walk = _core.RepeatWalk(step.core, start, question.limit, budget.seed + round_number)
        with suppress(TimeoutError):
            walk.run(moves, WARMTH, COOLNESS, budget.remaining_seconds())
        tried += walk.tried
        before = np.inf if best is None else step.core.cost(best, question.limit)[0]
        if len(walk.best) and walk.best_seconds < before:
            best, idle = walk.best, 0
        else:
            idle += 1
        if best is not None and step.core.cost(best, question.limit)[0] <= least:
            break
        start = walk.lowest if best is None else best
        moves *= 2
        round_number += 1
        if budget.node_limit is not None and tried >= budget.node_limit:
            break
    if best is None:
        return LimitAnswer(None, NOT_ENOUGH, statistics={"moves": tried})
    return LimitAnswer(step.late_sequence(best)[0], statistics={"moves": tried})
