"""Nests: blocks that outlive all others go to the bottom, and the rest splits into pieces.

Note [Nests]
~~~~~~~~~~~~
*Why.* A training step is a nest: weights live throughout, activations from their layer to its
mirror image, and temporaries for a moment in between. A block that lives as long as all others
together may go to the bottom: take any plan, cut the block out, let the blocks above it fall, and
lift everything by its size. Without such blocks, time splits wherever no block is alive on both
sides of a step. Then some blocks of a part may live as long as that part. So a problem of ten
thousand blocks may become four hundred pieces of two dozen, each above a flat floor, and each piece
is planned by itself.

*What is exact.* A plan meets the goal if and only if every piece fits between its floor and the
goal. So a bound that a search proves for a piece holds for the whole, plus the floor. This is true
if alignment costs nothing: every size is a multiple of every alignment. Otherwise floors are
rounded up and nothing is proven.

*If no block lives long enough.* A block may be declared to live longer than it does, as long as no
section then needs more than the goal: a plan of the stretched problem is a plan. So if nothing
splits, the longest-living blocks are stretched. The least length of a block that is stretched
varies from turn to turn.

*Limits.* Problems with pins are not taken. Chains, and tensors with gaps, never go to the bottom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from planners.exact.sections import sections_of
from planners.model.blocks import NOT_PINNED
from planners.model.bounds import bounds_so_far
from planners.model.columns import IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.search.turns import NO_SECTIONS, Search, Shared

# A piece of n blocks may take EFFORT_A_PIECE / n search nodes in a turn of length one, but at least
# LEAST_NODES. Guesses.
EFFORT_A_PIECE = 100_000
LEAST_NODES = 1_000
# A block may be stretched if it lives in at least this share of the sections of its part. Each turn
# takes the next share. Guesses.
SHARES = (0.9, 0.7, 0.5, 0.3)
NOT_STRETCHED = 1.0
# A problem counts as split if every piece has at most this share of all blocks. A guess.
MOST_IN_A_PIECE = 0.9


@dataclass(frozen=True, eq=False)
class Piece:
    """Blocks above a flat floor, none of which lives as long as all of them together."""

    # Sorted by start.
    blocks: IntColumn
    floor: int


class Nest:
    """The blocks of a problem as ranges of sections, and the way in which they split."""

    def __init__(self, problem: Problem, poll: Callable[[], None]) -> None:
        self._poll = poll
        blocks = problem.blocks
        tensor, first, last = sections_of(problem).segments.T
        block = blocks.block_of[tensor]
        self._blocks = blocks
        # Sections [first, last) of each block; a block of size 0 has none.
        self._first = np.full(blocks.count, np.iinfo(np.int64).max)
        self._last = np.zeros(blocks.count, dtype=np.int64)
        np.minimum.at(self._first, block, first)
        np.maximum.at(self._last, block, last)
        ranges = np.bincount(block, minlength=blocks.count)
        self._is_rectangle = (ranges == 1) & (np.diff(blocks.indptr) == 1)
        self.is_exact = bool((blocks.size % blocks.modulus.max(initial=1) == 0).all())

    def take_apart(self, goal: int, share: float, heads: IntColumn) -> list[Piece]:
        """Return the pieces, and write the heads of the blocks that go to the bottom.

        Blocks that live in at least ``share`` of their part's sections are stretched within the
        goal.
        """
        pieces = []
        blocks = np.flatnonzero(self._last > 0)
        parts = self._apart(blocks[np.argsort(self._first[blocks], kind="stable")], 0)
        while parts:
            self._poll()
            part = parts.pop()
            bottom = self._bottom(part, goal - part.floor, share)
            if not bottom.any():
                pieces.append(part)
                continue
            floor = part.floor
            low = part.blocks[bottom]
            # The strictest alignment first, so that fewer of the other blocks need rounding.
            for block in low[np.argsort(-self._blocks.modulus[low], kind="stable")].tolist():
                heads[block] = self._round_up(floor, block)
                floor = int(heads[block] + self._blocks.size[block])
            parts += self._apart(part.blocks[~bottom], floor)
        return pieces

    def _apart(self, blocks: IntColumn, floor: int) -> list[Piece]:
        """Split blocks, sorted by start, into parts of which no two share a section."""
        if not len(blocks):
            return []
        reach = np.maximum.accumulate(self._last[blocks])
        cuts = np.flatnonzero(self._first[blocks[1:]] >= reach[:-1]) + 1
        return [Piece(part, self._round_up(floor, part)) for part in np.split(blocks, cuts)]

    def _round_up(self, floor: int, blocks: IntColumn | int) -> int:
        """Return the lowest floor, at or above a given one, at which every block is aligned."""
        return floor + -floor % int(np.max(self._blocks.modulus[blocks]))

    def _bottom(self, part: Piece, room: int, share: float) -> NDArray[np.bool_]:
        """Return a mask of the blocks of a part that go to the bottom."""
        first, last = self._first[part.blocks], self._last[part.blocks]
        begin, end = int(first[0]), int(last.max())
        rectangle = self._is_rectangle[part.blocks]
        bottom: NDArray[np.bool_] = rectangle & (first == begin) & (last == end)
        near = rectangle & (last - first >= share * (end - begin))
        if bottom.any() or share == NOT_STRETCHED or not near.any():
            return bottom
        size = self._blocks.size[part.blocks]
        change = np.zeros(end - begin + 1, dtype=np.int64)
        np.add.at(change, first - begin, size)
        np.subtract.at(change, last - begin, size)
        load = np.cumsum(change[:-1])
        # The largest load before each section, and from each section on.
        before = np.maximum.accumulate(np.append(0, load))
        after = np.maximum.accumulate(np.append(0, load[::-1]))[::-1]
        near &= size + np.maximum(before[first - begin], after[last - begin]) <= room
        bottom[np.argmax(np.where(near, last - first, -1))] = near.any()
        return bottom


class Nests(Search):
    """Plans each piece of a problem by itself."""

    name = "nests"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._proven = 0
        self._shares = cycle(SHARES)
        # The best heads so far; and the end of each piece's highest block with these heads.
        self._heads = shared.incumbent.problem.blocks.residue.copy()
        self._peaks: list[int | None] = []

    @classmethod
    def reason_against(cls, problem: Problem) -> str | None:
        if not problem.lifetimes_decide:
            return NO_SECTIONS
        return None if (problem.blocks.pinned == NOT_PINNED).all() else "tensors are pinned"

    def run(self, length: int) -> None:
        """Plan each piece whose best plan so far ends above the goal.

        If the problem does not split into pieces, plan it with some blocks stretched.
        """
        if not self._falls_apart(self._pieces):
            self._run_stretched(next(self._shares), length)
            return
        for index, piece in enumerate(self._pieces):
            peak = self._peaks[index]
            if peak is not None and peak <= self._goal:
                continue
            if self._incumbent.over:
                return
            heads, bound = self._plan(piece, length)
            end = self._end(piece, heads)
            if peak is None or end < peak:
                self._heads[piece.blocks] = heads
                self._peaks[index] = end
            if self._nest.is_exact:
                self._proven = max(self._proven, bound)
                self._incumbent.prove(self._proven, self._shared.certificate)
        self._offer(self._heads, "pieces of a nest")

    def _run_stretched(self, share: float, length: int) -> None:
        """Plan the pieces into which a problem splits with some blocks stretched."""
        heads = self._incumbent.problem.blocks.residue.copy()
        pieces = self._nest.take_apart(self._goal, share, heads)
        if not self._falls_apart(pieces):
            return
        for piece in pieces:
            if self._incumbent.over:
                return
            heads[piece.blocks], _ = self._plan(piece, length)
        self._offer(heads, "pieces of a stretched nest")

    @cached_property
    def _nest(self) -> Nest:
        return Nest(self._incumbent.problem, self._incumbent.require_time)

    @cached_property
    def _pieces(self) -> list[Piece]:
        pieces = self._nest.take_apart(0, NOT_STRETCHED, self._heads)
        self._peaks = [None] * len(pieces)
        return pieces

    def _falls_apart(self, pieces: list[Piece]) -> bool:
        most = MOST_IN_A_PIECE * self._incumbent.problem.blocks.count
        return all(len(piece.blocks) <= most for piece in pieces)

    @property
    def _goal(self) -> int:
        return max(self._incumbent.goal, self._proven)

    def _end(self, piece: Piece, heads: IntColumn) -> int:
        return int((heads + self._incumbent.problem.blocks.size[piece.blocks]).max())

    def _offer(self, heads: IntColumn, found_by: str) -> None:
        self._incumbent.offer(Plan.of_blocks(self._incumbent.problem, heads), found_by)

    def _plan(self, piece: Piece, length: int) -> tuple[IntColumn, int]:
        """Return heads for the blocks of a piece, and a lower bound on their highest end."""
        incumbent = self._incumbent
        incumbent.require_time()
        whole = incumbent.problem
        blocks = whole.blocks
        tensors, first, _ = blocks.tensors_of(piece.blocks)
        problem = whole.select(
            tensors, start=whole.start[tensors], end=whole.end[tensors], tensor_name=None
        )
        # A capacity below a bound would be refused without a plan.
        room = max(self._goal - piece.floor, *(bound.bytes for bound in bounds_so_far(problem)))
        problem = problem.with_capacity(room)
        nodes = max(LEAST_NODES, EFFORT_A_PIECE * length // len(piece.blocks))
        findings = self._shared.plan_piece(
            problem, replace(incumbent.budget, node_limit=incumbent.most(nodes))
        )
        used = int(findings.statistics.get("attempts", nodes)) * len(piece.blocks)
        incumbent.count += incumbent.most(-(-used // blocks.count))
        if findings.interrupted:
            raise KeyboardInterrupt
        if findings.plan is None:
            raise TimeoutError("the time limit passed before every piece had a plan")
        return piece.floor + findings.plan.offsets[first], piece.floor + findings.lower_bound
