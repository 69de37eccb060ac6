"""The distances between two blocks at which none of their unsafe tensors share a byte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planners.exact.common_unit import ScaledBlocks
from planners.model.columns import IntColumn


@dataclass(frozen=True)
class Disjunction:
    """Two blocks may not lie at a distance ``below < head[second] - head[first] < above``.

    Two tensors give one such range. Chains may give several, if one chain fits into a hole of the
    other. So the order of two blocks is not one decision, but one for each range.
    """

    # Blocks, ``first < second``.
    first: int
    second: int
    # The two ends of the range, in units.
    below: int
    above: int


def disjunctions_of(
    scaled: ScaledBlocks, pairs: IntColumn
) -> tuple[list[Disjunction], dict[tuple[int, int], int]]:
    """Return the disjunctions of blocks with unsafe tensors, and each pair's disjunction by index.

    Two blocks may have several disjunctions, sorted by distance; overlapping ranges are merged. In
    a pair ``(a, b)``, tensor ``a`` is in the ``first`` block.
    """
    turned = scaled.block_of[pairs[:, 0]] > scaled.block_of[pairs[:, 1]]
    a, b = np.where(turned[:, None], pairs[:, ::-1], pairs).T
    apart = scaled.block_of[a] != scaled.block_of[b]
    a, b = a[apart], b[apart]
    ahead = scaled.before[a] - scaled.before[b]
    rows = np.column_stack(
        (
            scaled.block_of[a], scaled.block_of[b],
            ahead - scaled.tensor_size[b], ahead + scaled.tensor_size[a], a, b,
        )
    )  # fmt: skip
    disjunctions: list[Disjunction] = []
    belongs: dict[tuple[int, int], int] = {}
    for first, second, below, above, one, other in rows[np.lexsort(rows.T[::-1])].tolist():
        last = disjunctions[-1] if disjunctions else None
        if last is None or (last.first, last.second) != (first, second) or below >= last.above:
            disjunctions.append(Disjunction(first, second, below, above))
        elif above > last.above:
            disjunctions[-1] = Disjunction(first, second, last.below, above)
        belongs[one, other] = len(disjunctions) - 1
    return disjunctions, belongs
