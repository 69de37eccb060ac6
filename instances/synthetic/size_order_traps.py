"""Where placing the largest first is half as much again.

Note [Size-order trap]
~~~~~~~~~~~~~~~~~~~~~~
*The instance.* Tensors a, b, c, d of almost one size; each is alive together with the next alone.

    d          +-----+        The order of sizes is a, d, b, c. First a and d, which nothing sets
    c       +-----+           apart, get address 0. Then b has to go above a. At last c is alive
    b    +-----+              with both b and d: below is d, then b, and it goes on top.
    a +-----+

*Why two are enough.* a and c take turns with b and d, as the colours of a path do.

*The gap.* With sizes w + 3, w + 1, w, w + 2 the optimum is 2w + 4 units, what a and b need; first
fit and best fit by size end at 3w + 4. Copies one after the other keep that ratio of nearly 3 / 2.
It is the least case of first fit as a way to colour interval graphs.
"""

from __future__ import annotations

from random import Random

from instances.synthetic.family import Drawing, family
from instances.synthetic.packing import Packing, Rectangle, pack

STEPS_A_COPY = 7


@family(copies=1, units=4)
def size_order_trap(copies: int, *, units: int = 4096) -> Drawing:
    """Return tensors that first fit and best fit by decreasing size place badly.

    Parameters
    ----------
    copies
        Copies of the four tensors of Note [Size-order trap], at least 1, one after the other.
    units
        Their least size in units of 512 bytes, at least 4.

    Returns
    -------
    Problem
        Its optimum is its lifetime bound; those planners end near 3/2 times of it.
    """
    packing = paths_of_four(copies, units)
    return packing.drawing(
        f"size-order-trap-{copies}",
        "every other tensor of a path at the bottom; the first two are alive together",
    )


def paths_of_four(copies: int, units: int) -> Packing:
    """Return the tensors of the trap with the plan that takes turns."""
    rectangles = []
    for copy in range(copies):
        now = STEPS_A_COPY * copy
        rectangles += [
            Rectangle(now, now + 2, 0, units + 3),
            Rectangle(now + 1, now + 4, units + 3, 2 * units + 4),
            Rectangle(now + 3, now + 6, 0, units),
            Rectangle(now + 5, now + 7, units, 2 * units + 2),
        ]
    return pack(rectangles, Random(0))
