"""Computes the least offsets from the order of the blocks, in integers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from planners.exact.common_unit import ScaledBlocks
from planners.model.blocks import NOT_PINNED


def longest_path_heads(
    scaled: ScaledBlocks, distances: Iterable[tuple[int, int, int]], peak: int
) -> list[int] | None:
    """Return the least offsets that keep every distance, or None if one exceeds the peak.

    Only the order is taken from a floating-point solver. Its offsets are computed here: start every
    block at the bottom, and raise blocks that are too low to the next offset of their residue until
    none is.
    """
    above: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for lower, upper, distance in distances:
        above[lower].append((upper, distance))
    size, modulus, residue = (c.tolist() for c in (scaled.size, scaled.modulus, scaled.residue))
    pinned = (scaled.pinned != NOT_PINNED).tolist()
    heads: list[int] = scaled.lowest.tolist()
    # A cycle of positive length would raise its blocks until the peak ends it. This limit ends it
    # sooner; it is far above the longest path of any order without such a cycle.
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
