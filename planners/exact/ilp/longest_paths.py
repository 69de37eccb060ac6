"""From who lies above whom to the least offsets, in whole numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from planners.exact.common_unit import ScaledBlocks
from planners.model.blocks import NOT_PINNED


def longest_path_heads(
    scaled: ScaledBlocks, distances: Iterable[tuple[int, int, int]], peak: int
) -> list[int] | None:
    """Return the least offsets that keep every block as far above others as they must be.

    A floating-point solver is believed about the order alone. What follows from the order is
    worked out here: start every block at the bottom, and raise what is too low, to the next
    offset of its residue, until nothing is.
    """
    above: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for lower, upper, distance in distances:
        above[lower].append((upper, distance))
    size, modulus, residue = (c.tolist() for c in (scaled.size, scaled.modulus, scaled.residue))
    pinned = (scaled.pinned != NOT_PINNED).tolist()
    heads: list[int] = scaled.lowest.tolist()
    # A cycle of positive length would raise its blocks for ever; the peak ends that, and this
    # ends it sooner, long after the longest path of any order without such a cycle.
    rounds = 4 * scaled.count + 16
    raised = set(range(scaled.count))
    for _ in range(rounds):
        if not raised:
            return heads
        changed = set()
        for lower in sorted(raised):
            for upper, distance in above[lower]:
                least = heads[lower] + distance
                if heads[upper] >= least:
                    continue
                least += (residue[upper] - least) % modulus[upper]
                if pinned[upper] or least + size[upper] > peak:
                    return None
                heads[upper] = least
                changed.add(upper)
        raised = changed
    return None
