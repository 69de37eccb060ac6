"""Local search level by level: first a plan of the largest blocks, then smaller ones too.

Note [From the largest down]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
*Why.* The tensors of a real step range from a few bytes to gigabytes. A few hundred large blocks
decide whether a plan meets the bound. With all blocks in one order, an attempt mostly ends at one
of the thousands of blocks that would fit anywhere. So a descent first looks for an order of the
large blocks that meets a goal of their own, and then appends the next smaller ones. The search may
move the smaller ones forward, so no level is final.

*The goal of a level.* No plan of the large blocks is below their own bound. A plan that meets this
bound leaves the rest of the whole goal in one piece above it, but such a plan is hard to find or
does not exist. A plan at the whole goal is easy to find, but may leave only useless holes. Both
choices fail too often, so two goals take turns: the bound of the level, and one drawn between this
bound and the whole goal.

*Why many descents.* The first levels decide the rest, and a failed level is seldom mended. So a
descent is given up at the first level that takes too long. Each descent draws its own levels, start
order and goals. The limit of a level in the n-th descent is proportional to the largest power of
two that divides n. This costs at most a logarithmic factor more than the best limit, whatever that
is (Luby et al. 1993).

*Limits.* Blocks of one size form one level; then this is plain local search. Nothing is proven.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from random import Random

import numpy as np
from numpy.typing import NDArray

from planners import _core
from planners.greedy.pressure import PressureOrders
from planners.model.bounds import SHARE_FOR_BOUNDS, best_bound_of
from planners.model.columns import IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety
from planners.search.order_search import MOST_BLOCKS_IN_ROWS
from planners.search.turns import Search, Shared

Order = NDArray[np.int32]

# Efforts in attempts times blocks. Guesses. The goals of a level alternate after each slice of
# EFFORT_A_SLICE, but not before LEAST_ATTEMPTS attempts. EFFORT_A_LEVEL limits a level in every
# second descent, and more is allowed in the others. A turn of length one may take EFFORT_A_BLOCK
# for each block, but at most MOST_EFFORT_A_TURN: about as long as the turns of other searches.
EFFORT_A_SLICE = 50_000
EFFORT_A_LEVEL = 100_000
EFFORT_A_BLOCK = 8_000
MOST_EFFORT_A_TURN = 8_000_000
LEAST_ATTEMPTS = 20
# A level must hold at least this many times the blocks of the level above it. A guess.
LEAST_GROWTH = 1.1
# A descent skips at most this many levels in a row. A guess.
MOST_SKIPPED = 1
# Start orders are those of this many families of pressure orders, in which blocks alive at the peak
# come first. Seven families share a first level, so there are two different first levels.
PEAK_FAMILIES = 14


class LargestFirst(Search):
    """Looks for orders in which first fit meets the goal, from the largest blocks down.

    The start orders are computed at the first descent, because many problems end before it.
    """

    name = "largest-first"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        incumbent = shared.incumbent
        self._instance = incumbent.problem.core.with_rows()
        self._random = Random(incumbent.budget.seed)
        self._levels = levels_of(incumbent.problem.blocks.size)
        self._bounds: dict[int, int] = {}
        self._descents = 0

    @classmethod
    def reason_against(cls, problem: Problem) -> str | None:
        if problem.blocks.count > MOST_BLOCKS_IN_ROWS:
            return f"more than {MOST_BLOCKS_IN_ROWS} blocks"
        return None if len(levels_of(problem.blocks.size)) > 1 else "sizes make a single level"

    def run(self, length: int) -> None:
        """Descend repeatedly until the effort of the turn is spent."""
        blocks = self._incumbent.problem.blocks.count
        most = min(EFFORT_A_BLOCK * blocks, MOST_EFFORT_A_TURN) * length
        spent = 0
        while spent < most and not self._incumbent.over:
            spent += self._descend()

    @cached_property
    def _orders(self) -> Sequence[IntColumn]:
        """Orders in which blocks alive at the peak come first, if lifetimes are known."""
        incumbent = self._incumbent
        if incumbent.problem.safety is Safety.PAIRS:
            return self._shared.portfolio.all_orders
        families = PressureOrders(incumbent.problem, incumbent.bound).families()
        return [order for _, orders in islice(families, PEAK_FAMILIES) for _, order in orders]

    def _descend(self) -> int:
        """Descend once, as far as possible, and return the effort."""
        self._descents += 1
        most = EFFORT_A_LEVEL * (self._descents & -self._descents)
        aim = self._aim()
        start = self._random.choice(self._orders)
        size = self._incumbent.problem.blocks.size[start]
        order: Order = np.empty(0, dtype=np.int32)
        spent, above = 0, np.iinfo(np.int64).max
        for level in self._some_levels():
            new = start[(size >= level) & (size < above)]
            order = np.concatenate((order, new.astype(np.int32)))
            offsets, order, used = self._search(order, self._goals(level, aim), most)
            spent, above = spent + used, level
            if not len(offsets):
                break
            if level == self._levels[-1]:
                plan = Plan.of(self._incumbent.problem, offsets)
                self._incumbent.offer(plan, "local search from the largest down")
        return spent

    def _search(
        self, first: Order, goals: Sequence[int], most: int
    ) -> tuple[IntColumn, Order, int]:
        """Return the offsets of a plan that meets one of the goals, its order, and the effort.

        If no plan was found, there are no offsets.
        """
        incumbent = self._incumbent
        orders = [first] * len(goals)
        attempts = max(LEAST_ATTEMPTS, EFFORT_A_SLICE // len(first))
        spent = 0
        while spent < most and not incumbent.over:
            for turn, goal in enumerate(goals):
                offsets, orders[turn], made, none = _core.search_orders(
                    self._instance,
                    orders[turn],
                    goal + 1,
                    incumbent.most(attempts),
                    self._random.getrandbits(64),
                    incumbent.budget.remaining_seconds(),
                )
                incumbent.count += made
                if none:
                    incumbent.prove(goal + 1, self._shared.certificate)
                spent += (attempts if none else max(1, made)) * len(first)
                if len(offsets):
                    return offsets, orders[turn], spent
        return np.empty(0, dtype=np.int64), first, spent

    def _aim(self) -> int:
        """Return the peak to aim for: the goal, or every fourth time one between goal and best."""
        incumbent = self._incumbent
        assert incumbent.best is not None
        if self._descents % 4:
            return incumbent.goal
        return self._random.randint(incumbent.goal, incumbent.best.peak - 1)

    def _goals(self, level: int, aim: int) -> list[int]:
        if level == self._levels[-1]:
            return [aim]
        least = min(self._bound(level), aim)
        return [least, self._random.randint(least, aim)]

    def _bound(self, level: int) -> int:
        """Return a lower bound on the peak of the blocks of a level."""
        if level not in self._bounds:
            problem = self._incumbent.problem
            blocks = problem.blocks
            chosen = np.repeat(blocks.size >= level, np.diff(blocks.indptr))
            seconds = SHARE_FOR_BOUNDS * self._incumbent.budget.remaining_seconds()
            part = problem.select(blocks.members[chosen])
            self._bounds[level] = best_bound_of(part, seconds).bytes
        return self._bounds[level]

    def _some_levels(self) -> list[int]:
        """Return some of the levels, including the last."""
        chosen = []
        at = self._random.randint(0, MOST_SKIPPED)
        while at < len(self._levels) - 1:
            chosen.append(self._levels[at])
            at += 1 + self._random.randint(0, MOST_SKIPPED)
        return [*chosen, self._levels[-1]]


def levels_of(size: IntColumn) -> list[int]:
    """Return the least size of each level, in falling order; the last level holds every block."""
    levels: list[int] = []
    held = 0
    level = int(size.max(initial=0)) // 2
    while level > 0:
        count = int((size >= level).sum())
        if LEAST_GROWTH * held < count < len(size):
            levels.append(level)
            held = count
        level //= 2
    return [*levels, 0]
