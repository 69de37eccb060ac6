"""Greedy: the unit that frees most for its seconds runs again first, until the limit is met."""

from __future__ import annotations

import heapq

from planners.budget.limit_planner import LimitAnswer, LimitQuestion, register
from planners.budget.repeatable_step import Flags
from planners.budget.savings import savings

NOT_ENOUGH = "all that may run again does not free enough"


@register("greedy", summary="first what frees most bytes above the limit for its seconds")
def greedy(question: LimitQuestion) -> LimitAnswer:
    """Repeat group after group; then leave out again what turned out to be superfluous."""
    repeated = greedy_repeats(question)
    if repeated is None:
        return LimitAnswer(None, NOT_ENOUGH)
    return question.answer(repeated)


def greedy_repeats(question: LimitQuestion) -> Flags | None:
    """Return units that meet the limit, or None if greedy found none."""
    step, limit = question.step, question.limit
    core = step.core
    repeated = step.flags([])
    _, peak, excess = core.cost(repeated, limit)
    offered = savings(step)

    def with_group(group: int) -> Flags:
        flags = repeated.copy()
        flags[offered.units[group]] = 1
        return flags

    # The least excess per second first. What a group saves changes with what runs again already, so
    # an entry is judged anew before it is taken, and goes back if another has become better.
    waiting = [(-float("inf"), group) for group in range(len(offered.units))]
    while peak > limit and waiting:
        _, group = heapq.heappop(waiting)
        flags = with_group(group)
        seconds, new_peak, new_excess = core.cost(flags, limit)
        if new_excess >= excess:
            continue
        extra = max(seconds - core.cost(repeated, limit)[0], 1e-15)
        worth = -(excess - new_excess) / extra
        if waiting and worth > waiting[0][0]:
            heapq.heappush(waiting, (worth, group))
            continue
        repeated, peak, excess = flags, new_peak, new_excess
    if peak > limit:
        return None
    # The most expensive first.
    order = sorted(repeated.nonzero()[0].tolist(), key=lambda u: -step.unit_seconds[u])
    for unit in order:
        repeated[unit] = 0
        if core.cost(repeated, limit)[1] > limit:
            repeated[unit] = 1
    return repeated
