"""Does it fit? It does not, though no step needs more than the capacity: a ring of neighbours.

Note [Neighbour ring]
~~~~~~~~~~~~~~~~~~~~~
*The instance.* 2p tensors of one unit are alive together and fill a capacity of 2p units. They
stand in a ring 1, 2, ..., 2p, 1. Before they are all there, p tensors of two units fill the memory;
they end one after the other, and where one ends two units start: 1 and 2, then 3 and 4, and so on.
Afterwards the units end two by two, and where two end one tensor of two units starts that lives to
the end; but now 2 and 3 are the first pair, then 4 and 5, and the last pair is 2p and 1.

*Why no plan fits.* Every step needs the whole capacity, and at each change all but three tensors
stay where they are. So two units that start together share the room that a tensor of two units has
left, and two that end together leave room for one: either way they are neighbours. That makes every
two that follow each other in the ring neighbours, 2p pairs; but 2p units in a row have only 2p - 1
pairs of neighbours.

*Why one unit more is enough.* Units 1 to 2p in a row have all the pairs but 2p and 1. The tensor
that follows these two starts where 2p was, and takes the free unit above it.

*Limits.* In between no plan is possible: sizes are multiples of a unit, and so is the least peak.
The gap between the lifetime bound and the optimum is 1 / 2p, and no set of unsafe tensors shows it.
"""

from __future__ import annotations

from random import Random

from instances.synthetic.family import UNIT_BYTES, Drawing, family
from instances.synthetic.packing import Rectangle, pack


@family(pairs=2)
def neighbour_ring(pairs: int, *, seed: int = 0) -> Drawing:
    """Return tensors that do not fit a capacity that no step exceeds; see Note [Neighbour ring].

    Parameters
    ----------
    pairs
        Half the number of tensors of one unit, at least 2; there are four times as many tensors.

    Returns
    -------
    Problem
        Its capacity is its lifetime bound; its optimum is 512 bytes, one unit, above it.
    """
    units = 2 * pairs
    last = 2 * pairs + 1
    rectangles = []
    for pair in range(pairs):
        low = 2 * pair
        # Units `low` and `low + 1` start when the tensor before them ends.
        rectangles.append(Rectangle(0, pair + 1, low, low + 2))
        rectangles.append(Rectangle(pair + 1, pairs + 1 + (pair - 1) % pairs, low, low + 1))
        rectangles.append(Rectangle(pair + 1, pairs + 1 + pair, low + 1, low + 2))
        # Units `low + 1` and `low + 2` end when the tensor after them starts; the last pair is
        # the top unit and the lowest one, and the free unit above the top one stands in for that.
        rectangles.append(Rectangle(pairs + 1 + pair, last, low + 1, low + 3))
    assert max(rectangle.top for rectangle in rectangles) == units + 1
    packing = pack(rectangles, Random(seed))
    return packing.drawing(
        f"ring-{pairs}",
        "a row of 2p units has 2p - 1 pairs of neighbours, and a ring of them needs 2p",
        capacity=packing.height - UNIT_BYTES,
    )
