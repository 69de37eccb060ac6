"""Local search over orders, in slices, with restarts from the orders of the greedy planners."""

from __future__ import annotations

import sys
from random import Random

import numpy as np
from numpy.typing import NDArray

from planners import _core
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.search.turns import Search, Shared

# Limits a slice, in attempts times blocks. At the end of a slice the walk forgets the values of its
# last attempts and draws anew how far it moves blocks. On graphs of 200 to 300 tensors, slices ten
# times as long met half as many bounds. LEAST_ATTEMPTS keeps the placement of all blocks in the
# first attempt from being most of the work.
EFFORT_A_SLICE = 50_000
LEAST_ATTEMPTS = 100
# Slices in the first turn. A guess.
SLICES_A_TURN = 20
# The most blocks of a problem that this search takes as a whole: the core keeps a bit for each pair
# and scans all placed tensors for every block. Above it, only windows are searched. A guess.
MOST_BLOCKS_IN_ROWS = 20_000
# Slices without a better plan before the walk takes the next start order. A guess.
PATIENCE = 30


class OrderSearch(Search):
    """Walks through the block orders of first fit.

    Note [Squeaky wheel] in ``order_search.h`` describes the walk. A walk continues from its last
    order. If it finds no better plan for a while, the next start order replaces it.
    """

    name = "orders"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._starts = [start.astype(np.int32) for start in shared.portfolio.all_orders]
        self._instance = shared.incumbent.problem.core.with_rows()
        self._random = Random(shared.incumbent.budget.seed)
        self._order: NDArray[np.int32] = self._starts[0]
        self._restarts = 0
        self._idle = 0

    @classmethod
    def reason_against(cls, problem: Problem) -> str | None:
        most = MOST_BLOCKS_IN_ROWS
        return f"more than {most} blocks" if problem.blocks.count > most else None

    def run(self, length: int) -> None:
        self.walk(SLICES_A_TURN * length)

    def walk(self, slices: int = sys.maxsize) -> None:
        """Try orders for at most ``slices`` slices."""
        for _ in range(slices):
            if self._incumbent.over:
                return
            self._slice()

    def _slice(self) -> None:
        incumbent = self._incumbent
        assert incumbent.best is not None
        offsets, self._order, made, none = _core.search_orders(
            self._instance,
            self._order,
            incumbent.best.peak,
            incumbent.most(max(LEAST_ATTEMPTS, EFFORT_A_SLICE // len(self._order))),
            self._random.getrandbits(64),
            incumbent.budget.remaining_seconds(),
        )
        incumbent.count += made
        if none:
            incumbent.prove(incumbent.best.peak, self._shared.certificate)
        if len(offsets):
            incumbent.offer(Plan.of(incumbent.problem, offsets), "local search over orders")
            self._idle = 0
            return
        self._idle += 1
        if self._idle == PATIENCE:
            self._idle = 0
            self._restarts += 1
            self._order = self._starts[self._restarts % len(self._starts)]
