"""Local search: the best plan of other planners, improved move by move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planners import _core
from planners.recompute.limit_planner import LimitAnswer, LimitQuestion, register
from planners.recompute.repeatable_step import Choice

# Moves of the first round; each later round has twice as many.
FIRST_MOVES = 4000
# The walk begins at this many times the seconds of an average unit, and ends at this part of it.
WARMTH, COOLNESS = 2.0, 0.005
# Shares of the relaxed optimum from which on a unit runs again, or a tensor is sent away.
PARTS = (0.999, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.01)
# Rounds in which nothing became better before the search ends. A guess.
IDLE_ROUNDS = 4


@register("relaxation", summary="what the bound's relaxed optimum repeats for the most part")
def relaxation(question: LimitQuestion) -> LimitAnswer:
    """Choose what has the largest shares in the relaxed optimum."""
    return question.answer(rounded(question))


def rounded(question: LimitQuestion) -> Choice | None:
    """Return the choice of all shares from some part on, the fastest that meets the limit.

    Repeating more does not always free more, so every part is tried.
    """
    step = question.step
    found, fewest = None, np.inf
    for part in PARTS:
        choice = _from_part(question, part)
        seconds, peak, _ = step.cost(choice, question.limit)
        if peak <= question.limit and seconds < fewest:
            found, fewest = choice, seconds
    return found


def _from_part(question: LimitQuestion, part: float) -> Choice:
    step, bound = question.step, question.bound
    return Choice(
        (step.is_repeatable & (bound.repeated >= part)).astype(np.uint8),
        (step.is_sendable & (bound.sent >= part)).astype(np.uint8),
    )


@register(
    "local-search",
    summary="the best of those above, improved by local search",
    starts_from=(
        "keep-all", "greedy", "checkpoint-blocks", "checkpoint-sqrt", "relaxation", "knapsack",
        "block-programming",
    ),
)  # fmt: skip
def local_search(question: LimitQuestion) -> LimitAnswer:
    """Walk from the best start in rounds of doubling length, until nothing becomes better."""
    step, budget, limit = question.step, question.budget, question.limit
    best, fewest = None, np.inf
    if question.known is None:
        start = _from_part(question, 0.5)
    else:
        start = step.choice_of(question.known)
        seconds, peak, _ = step.cost(start, limit)
        fewest = seconds if peak <= limit else np.inf
    moves, idle, tried, rounds, interrupted = FIRST_MOVES, 0, 0, 0, False
    while idle < IDLE_ROUNDS and fewest > question.bound.seconds and not interrupted:
        if budget.node_limit is not None:
            moves = min(moves, budget.node_limit - tried)
        if budget.remaining_seconds() == 0 or moves <= 0:
            break
        walk = _core.RepeatWalk(step.core, start.repeated, start.sent, limit, budget.seed + rounds)
        try:
            walk.run(moves, WARMTH, COOLNESS, budget.remaining_seconds())
        except TimeoutError:
            pass  # the walk keeps its best state
        except KeyboardInterrupt:
            interrupted = True
        tried += walk.tried
        idle += 1
        if walk.has_best and walk.best_seconds < fewest:
            best, fewest, idle = Choice(*walk.best), walk.best_seconds, 0
        if best is not None:
            start = best
        elif np.isinf(fewest):
            start = Choice(*walk.lowest)
        moves *= 2
        rounds += 1
    found = question.answer(best)
    return replace(found, statistics={"moves": tried}, interrupted=interrupted)
