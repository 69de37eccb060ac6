"""Plans that differ only in names or direction: the search examines one of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from planners.exact.common_unit import ScaledBlocks
from planners.model.blocks import NOT_PINNED
from planners.model.columns import IntColumn
from planners.model.problem import Problem


@dataclass(frozen=True)
class Symmetry:
    """The assumptions that a search may make without losing the best peak.

    Note: why both hold at once. Blocks of one group may swap their offsets, so they may be assumed
    to lie in the order of their index. If nothing fixes a direction, a plan upside down is a plan,
    so the anchor may be assumed to lie in the lower half. The anchor is the first of its group. If
    even the lowest block of a group lies in the upper half, all of them do, and after the turn all
    lie in the lower half. So sorting the group again keeps the anchor there.
    """

    # Groups of identical, pairwise unsafe blocks. Their offsets may be assumed to rise in this
    # order.
    groups: list[list[int]]
    # The block whose middle may be assumed to lie in the lower half; None if a pin, a chain or an
    # alignment distinguishes up from down.
    anchor: int | None

    def representative(self, scaled: ScaledBlocks, heads: IntColumn, peak: int) -> IntColumn:
        """Return an equivalent plan that satisfies the assumptions."""
        if self.anchor is not None and 2 * heads[self.anchor] + scaled.size[self.anchor] > peak:
            # Upside down it lies in the lower half, and so does the lowest block of its group.
            heads = peak - heads - scaled.size
        else:
            heads = heads.copy()
        for group in self.groups:
            heads[group] = np.sort(heads[group])
        return heads


def symmetry_of(
    problem: Problem, scaled: ScaledBlocks, neighbourhood: Sequence[Hashable]
) -> Symmetry:
    """Return the symmetry that follows from sizes, conditions and neighbourhoods.

    Tensors with equal neighbourhoods must be unsafe with each other, and with the same others.
    """
    single = np.diff(problem.blocks.indptr) == 1
    free = single & (scaled.size > 0) & (scaled.pinned == NOT_PINNED)
    tensors = np.flatnonzero(free[scaled.block_of])
    blocks = scaled.block_of[tensors]
    columns = (tensors, blocks, scaled.size[blocks], scaled.modulus[blocks])
    alike: defaultdict[Hashable, list[int]] = defaultdict(list)
    for tensor, block, size, modulus in zip(*(c.tolist() for c in columns), strict=True):
        alike[size, modulus, neighbourhood[tensor]].append(block)
    groups = [group for group in alike.values() if len(group) > 1]
    directed = (
        not single.all()
        or (scaled.modulus > 1).any()
        or (scaled.pinned != NOT_PINNED).any()
        or not scaled.count
    )
    if directed:
        return Symmetry(groups, None)
    largest = int(np.argmax(scaled.size))
    first = next((group[0] for group in groups if largest in group), largest)
    return Symmetry(groups, first)
