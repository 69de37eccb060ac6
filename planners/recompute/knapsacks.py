"""Knapsacks: what shall run again, judged by the bytes that it saves at the largest place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planners.recompute.forward_blocks import narrow_places, units_of_blocks
from planners.recompute.limit_planner import LimitAnswer, LimitQuestion, register
from planners.recompute.repeatable_step import Choice
from planners.recompute.savings import Savings, least_saving, savings

# The bytes to save are counted in this many parts.
PARTS = 2000


@register("knapsack", summary="the cheapest units that save enough where most bytes live")
def knapsack(question: LimitQuestion) -> LimitAnswer:
    """Choose among the groups of `savings`, each by itself."""
    offered = savings(question)
    return _cheapest_of_blocks(question, offered, [[group] for group in range(len(offered.units))])


@register(
    "block-programming",
    summary="dynamic programming over blocks: each kept, or repeated in part or as a whole",
)
def block_programming(question: LimitQuestion) -> LimitAnswer:
    """Choose for each block how much of it runs again, cheapest bytes first."""
    step = question.step
    offered = savings(question)
    ratio = offered.seconds / np.maximum(offered.saved_bytes, 1)
    # The last unit of a group is the one that the others are made for.
    group_of_unit = {int(group[-1]): index for index, group in enumerate(offered.units)}
    blocks = []
    for units in units_of_blocks(step, narrow_places(step)):
        groups = [group_of_unit[unit] for unit in units.tolist() if unit in group_of_unit]
        blocks.append(sorted(groups, key=lambda group: ratio[group]))
    return _cheapest_of_blocks(question, offered, blocks)


def _cheapest_of_blocks(
    question: LimitQuestion, offered: Savings, blocks: list[list[int]]
) -> LimitAnswer:
    """Choose of each block its first groups, none to all."""
    choices = []
    for groups in blocks:
        saved = np.concatenate(([0], np.cumsum(offered.saved_bytes[groups])))
        seconds = np.concatenate(([0.0], np.cumsum(offered.seconds[groups])))
        choices.append(list(zip(saved.tolist(), seconds.tolist(), strict=True)))

    def choose(wanted: int) -> Choice | None:
        taken = cheapest_choice(choices, wanted, question.require_time)
        if taken is None:
            return None
        units = [offered.units[group] for groups, count in zip(blocks, taken, strict=True)
                 for group in groups[:count]]  # fmt: skip
        return question.step.choice(np.concatenate([np.empty(0, dtype=np.int64), *units]))

    return question.answer(least_saving(question, choose))


def cheapest_choice(
    choices: list[list[tuple[int, float]]],
    wanted: int,
    require_time: Callable[[], None] = lambda: None,
) -> list[int] | None:
    """Return the choice of each list that saves the wanted bytes together in the fewest seconds.

    A choice has the bytes that it saves, and its seconds. Bytes are rounded to parts of those
    wanted, so the choices may save a little less. None if all together save too little.
    """
    if sum(max(saved for saved, _ in options) for options in choices) < wanted:
        return None
    part = max(1, -(-wanted // PARTS))
    goal = -(-wanted // part)
    # The fewest seconds that save at least so many parts; more than the goal counts as the goal.
    best = np.full(goal + 1, np.inf)
    best[0] = 0
    taken = np.zeros((len(choices), goal + 1), dtype=np.int32)
    before = np.zeros((len(choices), goal + 1), dtype=np.int32)
    places = np.arange(goal + 1)
    for row, options in enumerate(choices):
        new = np.full(goal + 1, np.inf)
        for number, (saved, seconds) in enumerate(options):
            require_time()
            # Rounded to the nearest part; `least_saving` makes up for what rounding loses.
            target = np.minimum(places + round(saved / part), goal)
            cost = best + seconds
            # Several places lead to the goal: the cheapest of them counts.
            order = np.argsort(-cost, kind="stable")
            reached, source = target[order], places[order]
            candidate = np.full(goal + 1, np.inf)
            origin = np.zeros(goal + 1, dtype=np.int32)
            candidate[reached] = cost[source]
            origin[reached] = source
            better = candidate < new
            new[better] = candidate[better]
            taken[row, better] = number
            before[row, better] = origin[better]
        best = new
    if not np.isfinite(best[goal]):
        # Rounding lost the bytes that are missing.
        return [int(np.argmax([saved for saved, _ in options])) for options in choices]
    found, place = [], goal
    for row in reversed(range(len(choices))):
        found.append(int(taken[row, place]))
        place = int(before[row, place])
    return found[::-1]
