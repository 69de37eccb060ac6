"""The distances at which two blocks share no byte that they may not share."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from planners.exact.common_unit import ScaledBlocks
from planners.model.columns import IntColumn


@dataclass(frozen=True)
class Disjunction:
    """Two blocks may not lie at a distance ``below < head[second] - head[first] < above``.

    Two tensors give one such range. Chains may give several, where one fits into a hole of the
    other, so which of two blocks is on top is not one question but one a range.
    """

    # Blocks, ``first < second``.
    first: int
    second: int
    # Units; either side of the range.
    below: int
    above: int


def disjunctions_of(
    scaled: ScaledBlocks, pairs: IntColumn
) -> tuple[list[Disjunction], dict[tuple[int, int], int]]:
    """Return what separates the blocks of unsafe tensors, and the disjunction of each pair.

    Two blocks may have several, by distance; those that overlap are one. A pair ``(a, b)`` has its
    ``a`` in the ``first`` block.
    """
    ranges: defaultdict[tuple[int, int], list[tuple[int, int, int, int]]] = defaultdict(list)
    for one, other in pairs.tolist():
        a, b = sorted((one, other), key=lambda tensor: scaled.block_of[tensor])
        blocks = scaled.block_of[a], scaled.block_of[b]
        if blocks[0] != blocks[1]:
            ahead = scaled.before[a] - scaled.before[b]
            below, above = ahead - scaled.tensor_size[b], ahead + scaled.tensor_size[a]
            ranges[blocks].append((below, above, a, b))
    disjunctions: list[Disjunction] = []
    belongs: dict[tuple[int, int], int] = {}
    for (first, second), found in sorted(ranges.items()):
        last: Disjunction | None = None
        for below, above, a, b in sorted(found):
            if last is None or below >= last.above:
                disjunctions.append(Disjunction(first, second, below, above))
            elif above > last.above:
                disjunctions[-1] = Disjunction(first, second, last.below, above)
            last = disjunctions[-1]
            belongs[a, b] = len(disjunctions) - 1
    return disjunctions, belongs
