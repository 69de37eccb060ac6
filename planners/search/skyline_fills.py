"""Plans that repeatedly fill the lowest place: weights are varied first, then priorities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planners import _core
from planners.exact.sections import sections_of
from planners.model.blocks import NOT_PINNED
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.search.turns import NO_SECTIONS, Search, Shared

Reals = NDArray[np.float64]

# With fewer blocks than LEAST_BLOCKS, beams and exact search do better. With more blocks times
# sections than MOST_EFFORT_A_PLAN, a plan takes longer than a tenth of a second.
LEAST_BLOCKS = 500
MOST_EFFORT_A_PLAN = 20_000_000
# In a turn of length one: draws of weights; slices of a walk over priorities, each of which aims
# anew; and attempts in a slice. With more of them, beams would wait too long for the width that
# proves a plan.
DRAWS_A_TURN = 100
SLICES_A_TURN = 4
ATTEMPTS_A_SLICE = 50
# The share of draws with new weights; the others shift the best weights by at most MOST_SHIFT.
# Guesses.
SHARE_DRAWN = 0.4
MOST_WEIGHT = 1.5
MOST_SHIFT = 0.2
# The share of the gap between peak and goal that the walk over priorities aims for. A guess.
SHARE = 0.02


class SkylineFills(Search):
    """Varies which block goes to the bottom of a place; see Note [Skyline fill]."""

    name = "fills"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._random = np.random.default_rng(shared.incumbent.budget.seed)
        # The weights and priorities of the best draw, and the peak of its plan.
        self._drawn: tuple[Reals, Reals] | None = None
        self._drawn_peak = _core.NO_LIMIT
        # The current weights and priorities of the walk.
        self._weights, self._priority = np.empty(0), np.empty(0)

    @classmethod
    def reason_against(cls, problem: Problem) -> str | None:
        blocks = problem.blocks
        if not problem.lifetimes_decide:
            return NO_SECTIONS
        if problem.contiguous or len(problem.gaps) or (blocks.pinned != NOT_PINNED).any():
            return "tensors are chained, pinned or have gaps"
        if blocks.count < LEAST_BLOCKS:
            return f"fewer than {LEAST_BLOCKS} blocks"
        effort = blocks.count * sections_of(problem).count
        return "too many blocks and sections" if effort > MOST_EFFORT_A_PLAN else None

    def run(self, length: int) -> None:
        """Draw weights, then continue the walk from its last state, or from a better draw."""
        before = self._drawn_peak
        for _ in range(DRAWS_A_TURN * length):
            if self._incumbent.over:
                return
            self._draw()
        if self._drawn_peak < before:
            assert self._drawn is not None
            self._weights, self._priority = self._drawn
        for _ in range(SLICES_A_TURN * length):
            if self._incumbent.over:
                return
            self._walk()

    def _draw(self) -> None:
        random = self._random
        priority = random.random(self._incumbent.problem.blocks.count)
        weights = random.random(_core.FILL_REASONS) * MOST_WEIGHT
        if self._drawn is not None and random.random() >= SHARE_DRAWN:
            shift = random.uniform(-MOST_SHIFT, MOST_SHIFT, _core.FILL_REASONS)
            weights = self._drawn[0] + shift
        plan, weights, priority = self._search(weights, priority, self._drawn_peak, 1)
        if plan is not None:
            self._drawn, self._drawn_peak = (weights, priority), plan.peak

    def _walk(self) -> None:
        incumbent = self._incumbent
        assert incumbent.best is not None
        wanted = max(1, int((incumbent.best.peak - incumbent.goal) * SHARE))
        limit = incumbent.best.peak - wanted + 1
        _, self._weights, self._priority = self._search(
            self._weights, self._priority, limit, ATTEMPTS_A_SLICE
        )

    def _search(
        self, weights: Reals, priority: Reals, limit: int, attempts: int
    ) -> tuple[Plan | None, Reals, Reals]:
        """Search for a plan below a limit; also return weights and priorities to continue from."""
        incumbent = self._incumbent
        offsets, weights, priority, made = _core.search_fills(
            incumbent.problem.core,
            weights,
            priority,
            limit,
            incumbent.most(attempts),
            int(self._random.integers(1 << 63)),
            incumbent.budget.remaining_seconds(),
        )
        incumbent.count += made
        if not len(offsets):
            return None, weights, priority
        plan = Plan.of(incumbent.problem, offsets)
        incumbent.offer(plan, "filled places")
        return plan, weights, priority
