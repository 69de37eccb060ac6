"""Large-neighbourhood search: some blocks around one that ends too high are placed anew.

Note [LargeNeighbourhoodSearch]
~~~~~~~~~~~~~~
In a better plan every block ends at or below a target. In the best plan few blocks end higher: at a
small gap mostly one in each place where memory is tight. The search mends these blocks one after
the other. The window of such a block consists of the block and of some blocks drawn at random that
are unsafe with it, or with those. All other blocks that are unsafe with a block of the window are
pinned at their offsets. The rest cannot matter and is left out. Another search decides whether the
window fits below the target. If it fits, the block is mended, and no block that was low enough ends
above the target. So every success leaves fewer blocks to mend, and when none is left the plan is
better. If the window does not fit, a larger one is tried. A window costs only what its own blocks
and their neighbours cost, however large the problem is.

The search learns how much better a plan to aim for. At first it aims for half of the gap between
the peak and the goal. Each time that no window helped, it halves that share, down to a single byte;
then it begins again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from planners.exact.branch_and_bound.branch_and_bound import search as branch_and_bound
from planners.greedy.portfolio import Portfolio
from planners.model.blocks import NOT_PINNED
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.incumbent import Incumbent
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.search.order_search import OrderSearch
from planners.search.turns import ExactSearch, Search, Shared

# Blocks in the first window around a block; the factor to the next window; and the number of
# windows after which the block is given up at this target. NODES_A_WINDOW limits the nodes of one
# window. Guesses.
FIRST_WINDOW = 20
GROWTH = 2
WINDOWS_A_BLOCK = 5
NODES_A_WINDOW = 4_000
# Nodes of the exact search in a window. Windows on which local search fails are solved soon by the
# exact search, or not at all. It is used only where its nodes are cheap. A guess.
EXACT_NODES_A_WINDOW = 500
# With fewer blocks a window is hardly smaller than the whole problem. A guess.
LEAST_BLOCKS = 500

# The share of the gap between peak and goal that is aimed for at first. A guess.
FIRST_SHARE = 0.5


class LargeNeighbourhoodSearch(Search):
    """Mends the best plan window by window."""

    name = "windows"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._random = Random(shared.incumbent.budget.seed)
        self._share = FIRST_SHARE
        blocks = shared.incumbent.problem.blocks
        self._first_member = blocks.members[blocks.indptr[:-1]]

    @classmethod
    def reason_against(cls, problem: Problem) -> str | None:
        return f"fewer than {LEAST_BLOCKS} blocks" if problem.blocks.count < LEAST_BLOCKS else None

    def run(self, length: int) -> None:
        """Try to mend the best plan below several targets in turn."""
        for _ in range(length):
            if self._incumbent.over:
                return
            self.improve_once()

    def improve_once(self) -> bool:
        """Try to mend the best plan below one target."""
        incumbent = self._incumbent
        assert incumbent.best is not None
        missing = incumbent.best.peak - incumbent.goal
        wanted = max(1, int(missing * self._share))
        target = incumbent.best.peak - wanted
        heads = incumbent.best.offsets[self._first_member].copy()
        ends = heads + incumbent.problem.blocks.size
        # Start with the highest block, whose window is the most likely to fail.
        for block in sorted(np.flatnonzero(ends > target).tolist(), key=lambda b: -int(ends[b])):
            if incumbent.over:
                return False
            if heads[block] + incumbent.problem.blocks.size[block] <= target:
                continue  # mended in another block's window
            if not self._mend(block, heads, target):
                self._share = self._share / 2 if wanted > 1 else FIRST_SHARE
                return False
        incumbent.offer(Plan.of_blocks(incumbent.problem, heads), "windows placed anew")
        return True

    def _mend(self, block: int, heads: IntColumn, target: int) -> bool:
        incumbent = self._incumbent
        count = FIRST_WINDOW
        for _ in range(WINDOWS_A_BLOCK):
            if incumbent.over:
                return False
            free = self._free(block, count, heads, target)
            window = Subproblem(incumbent.problem, free, heads, target)
            plan, nodes = place_window(window.problem, self._budget(), self._shared.exact)
            incumbent.count += incumbent.most(max(1, nodes))
            if plan is not None:
                window.write_heads(plan, heads)
                return True
            count *= GROWTH
        return False

    def _budget(self) -> Budget:
        return replace(
            self._incumbent.budget,
            node_limit=self._incumbent.most(NODES_A_WINDOW),
            seed=self._random.getrandbits(31),
        )

    def _free(self, block: int, count: int, heads: IntColumn, target: int) -> list[int]:
        """Return the blocks of a window: the block itself and others near it."""
        ends = heads + self._incumbent.problem.blocks.size
        free = [block]
        seen = {block}
        for centre in free:  # grows during the loop: neighbours, then their neighbours
            near = sorted(self._near(centre) - seen)
            seen.update(near)
            # A block that ends too high cannot stay at its offset.
            high = [other for other in near if ends[other] > target]
            low = [other for other in near if ends[other] <= target]
            room = max(0, count - len(free) - len(high))
            # Half of the window are neighbours of the block itself, if it has so many.
            share = -(-room // 2) if len(low) > room // 2 and centre == block else room
            free += high + self._random.sample(low, min(share, len(low)))
            if len(free) >= count:
                break
        return free

    def _near(self, block: int) -> set[int]:
        problem = self._incumbent.problem
        blocks = problem.blocks
        near: set[int] = set()
        for tensor in blocks.members[blocks.indptr[block] : blocks.indptr[block + 1]].tolist():
            near.update(blocks.block_of[problem.core.unsafe_with(tensor)].tolist())
        near.discard(block)
        return near


def place_window(
    problem: Problem, budget: Budget, exact: ExactSearch = branch_and_bound
) -> tuple[Plan | None, int]:
    """Look for a plan that fits, and count nodes: greedy by size, order search, exact search."""
    assert problem.capacity is not None
    incumbent = Incumbent(problem, budget, problem.capacity)
    portfolio = Portfolio(problem)
    portfolio.run_first(incumbent)
    if not incumbent.over:
        OrderSearch(Shared(incumbent, portfolio)).walk()
    assert incumbent.best is not None
    nodes = incumbent.count
    if not (incumbent.is_decided or problem.contiguous):
        answer = exact(problem, replace(budget, node_limit=EXACT_NODES_A_WINDOW), incumbent.best)
        nodes += EXACT_NODES_A_WINDOW
        incumbent.take(answer, "exact search")
    return incumbent.best if incumbent.best.peak <= problem.capacity else None, nodes


class Subproblem:
    """The part of a problem that matters if only some blocks may move.

    Tensors that are unsafe with a moving block are pinned; all others cannot matter and are left
    out.
    """

    def __init__(
        self, whole: Problem, free: Sequence[int], heads: IntColumn, capacity: int
    ) -> None:
        blocks = whole.blocks
        self._blocks = np.array([b for b in free if blocks.pinned[b] == NOT_PINNED], dtype=np.int64)
        # The moving tensors come first, block by block.
        moving, self._first, length = blocks.tensors_of(self._blocks)
        unsafe = [whole.core.unsafe_with(tensor) for tensor in moving.tolist()]
        others = np.concatenate([moving[:0], *unsafe])
        is_around = np.zeros(whole.tensor_count, dtype=np.bool_)
        is_around[others] = True
        is_around[moving] = False
        offset = np.empty(whole.tensor_count, dtype=np.int64)
        offset[blocks.members] = np.repeat(heads, np.diff(blocks.indptr)) + blocks.before
        still = np.flatnonzero(is_around & (whole.size > 0) & (offset < capacity))
        tensors = np.concatenate([moving, still])
        self.problem = whole.select(
            tensors,
            # A pinned tensor that reaches above the capacity is cut there.
            size=np.concatenate(
                [whole.size[moving], np.minimum(whole.size[still], capacity - offset[still])]
            ),
            contiguous=[
                np.arange(first, first + members)
                for first, members in zip(self._first.tolist(), length.tolist(), strict=True)
                if members > 1
            ],
            pinned=np.concatenate([np.full(len(moving), NOT_PINNED), offset[still]]),
            capacity=capacity,
            tensor_name=None,
            name=f"{whole.name}: window",
            **_safety(whole, tensors, others, np.array([len(row) for row in unsafe], np.int64)),
        )

    def write_heads(self, plan: Plan, heads: IntColumn) -> None:
        """Write the heads of the moving blocks from a plan of the subproblem."""
        heads[self._blocks] = plan.offsets[self._first]


def _safety(
    whole: Problem, tensors: IntColumn, others: IntColumn, counts: IntColumn
) -> dict[str, Any]:
    """Return the fields that decide safety, given each moving tensor's unsafe ``others``."""
    if whole.lifetimes_decide:
        return {"start": whole.start[tensors], "end": whole.end[tensors]}
    # The pinned tensors were placed together before, so only pairs with moving tensors matter.
    place = np.full(whole.tensor_count, -1, dtype=np.int64)
    place[tensors] = np.arange(len(tensors))
    pairs = np.column_stack((np.repeat(np.arange(len(counts)), counts), place[others]))
    return {"unsafe_pairs": pairs[pairs[:, 1] >= 0]}
