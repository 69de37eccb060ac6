"""Greedy: what frees most for its seconds runs again, or is sent away, first."""

from __future__ import annotations

import heapq

import numpy as np

from planners.budget.limit_planner import LimitAnswer, LimitQuestion, register
from planners.budget.repeatable_step import Choice
from planners.budget.savings import savings

NOT_ENOUGH = "all that may run again does not free enough"
# Below this, seconds are rounding errors.
LEAST_SECONDS = 1e-15


@register("greedy", summary="first what frees most bytes above the limit for its seconds")
def greedy(question: LimitQuestion) -> LimitAnswer:
    """Choose group after group; then leave out again what turned out to be superfluous."""
    choice = greedy_choice(question)
    return LimitAnswer(None, NOT_ENOUGH) if choice is None else question.answer(choice)


def greedy_choice(question: LimitQuestion) -> Choice | None:
    """Return a choice that meets the limit, or None if greedy found none."""
    step, limit = question.step, question.limit
    chosen = step.choice()
    seconds, peak, excess = step.cost(chosen, limit)
    offered = [(units, np.empty(0, dtype=np.int64)) for units in savings(step).units]
    offered += [(np.empty(0, dtype=np.int64), np.array([tensor]))
                for tensor in np.flatnonzero(step.is_sendable).tolist()]  # fmt: skip
    # The least excess per second first. What an offer saves changes with what is chosen already, so
    # it is judged anew before it is taken, and goes back if another has become better.
    waiting = [(-float("inf"), number) for number in range(len(offered))]
    while peak > limit and waiting:
        _, number = heapq.heappop(waiting)
        units, tensors = offered[number]
        choice = Choice(chosen.repeated.copy(), chosen.sent.copy())
        choice.repeated[units] = 1
        choice.sent[tensors] = 1
        new_seconds, new_peak, new_excess = step.cost(choice, limit)
        if new_excess >= excess:
            continue
        worth = -(excess - new_excess) / max(new_seconds - seconds, LEAST_SECONDS)
        if waiting and worth > waiting[0][0]:
            heapq.heappush(waiting, (worth, number))
            continue
        chosen, seconds, peak, excess = choice, new_seconds, new_peak, new_excess
    if peak > limit:
        return None
    # The most expensive first.
    for unit in sorted(np.flatnonzero(chosen.repeated), key=lambda u: -step.unit_seconds[u]):
        chosen.repeated[unit] = 0
        if step.cost(chosen, limit)[1] > limit:
            chosen.repeated[unit] = 1
    return chosen
