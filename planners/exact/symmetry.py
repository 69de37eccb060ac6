"""Plans that are the same but for names or direction: the search looks at one of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from planners.exact.common_unit import ScaledBlocks
from planners.model.blocks import NOT_PINNED
from planners.model.problem import Problem


@dataclass(frozen=True)
class Symmetry:
    """What a search may assume of the plans it looks at.

    Note: why both hold at once. Blocks of one group may swap their offsets, so they may be
    assumed to lie in the order of their index. Where nothing fixes a direction, a plan upside
    down is a plan, so the anchor may be assumed to lie in the lower half; and since it is the
    first of its group, sorting the group again after the turn keeps it there: if even the lowest
    of a group lies in the upper half, all of them do, and all lie in the lower half afterwards.
    """

    # Blocks that are alike and pairwise unsafe, in the order in which they may be assumed to lie,
    # the lowest first.
    groups: list[list[int]]
    # Block whose middle may be assumed to lie in the lower half; None where a pin, a chain or an
    # alignment tells up from down.
    anchor: int | None

    def representative(self, scaled: ScaledBlocks, heads: list[int], peak: int) -> list[int]:
        """Return the plan that the search may look at instead of one that it may not."""
        heads = list(heads)
        if self.anchor is not None and 2 * heads[self.anchor] + scaled.size[self.anchor] > peak:
            # Upside down it lies in the lower half, and so does the lowest of its group.
            heads = [peak - x - s for x, s in zip(heads, scaled.size, strict=True)]
        for group in self.groups:
            for block, head in zip(group, sorted(heads[b] for b in group), strict=True):
                heads[block] = head
        return heads


def symmetry_of(
    problem: Problem, scaled: ScaledBlocks, neighbourhood: Sequence[Hashable]
) -> Symmetry:
    """Return the symmetry that can be seen from sizes, conditions and neighbourhoods.

    Tensors with equal neighbourhoods must be unsafe with each other, and with the same others.
    """
    members = (problem.blocks.indptr[1:] - problem.blocks.indptr[:-1]).tolist()
    alike: defaultdict[Hashable, list[int]] = defaultdict(list)
    for tensor, block in enumerate(scaled.block_of):
        if members[block] == 1 and scaled.size[block] and scaled.pinned[block] == NOT_PINNED:
            key = (scaled.size[block], scaled.modulus[block], neighbourhood[tensor])
            alike[key].append(block)
    groups = [group for group in alike.values() if len(group) > 1]
    directed = (
        any(count > 1 for count in members)
        or any(modulus > 1 for modulus in scaled.modulus)
        or any(pin != NOT_PINNED for pin in scaled.pinned)
        or not scaled.count
    )
    if directed:
        return Symmetry(groups, None)
    largest = max(range(scaled.count), key=lambda block: scaled.size[block])
    first = next((group[0] for group in groups if largest in group), largest)
    return Symmetry(groups, first)
