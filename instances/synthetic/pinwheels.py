r"""Perfect packings that no straight cut takes apart: pinwheels within pinwheels.

+---+-----------+   Four arms around a centre. Every line from edge to edge crosses an arm;
|   |     C     |   and where an arm is a pinwheel itself, that holds within it as well.
| D +-------+---+
|   |centre |   |
+---+-------+ B |
|     A     |   |
+-----------+---+
"""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random

from instances.synthetic.family import Drawing, family
from instances.synthetic.packing import PERFECT, Packing, Rectangle, pack
from planners.errors import InstanceError

# The least that has room for two arms and a centre.
LEAST_SIDE = 3


@family(pinwheels=1, steps=LEAST_SIDE, units=LEAST_SIDE)
def non_guillotine_packing(
    pinwheels: int, *, steps: int = 512, units: int = 4096, seed: int = 0
) -> Drawing:
    """Return tensors that fill a rectangle of time and memory exactly, made of nested pinwheels.

    Parameters
    ----------
    pinwheels
        Number of pinwheels, at least 1; each adds four tensors to the first one.
    steps
        Steps of time, at least 3.
    units
        Units of memory of 512 bytes, at least 3.
    seed
        Start of every random choice.

    Returns
    -------
    Problem
        Its optimum is the height of the rectangle, and so is its lifetime bound.
    """
    packing = nest_pinwheels(pinwheels, steps, units, Random(seed))
    return packing.drawing(f"pinwheels-{pinwheels}", PERFECT)


def nest_pinwheels(pinwheels: int, steps: int, units: int, rng: Random) -> Packing:
    """Return a rectangle made of nested pinwheels, with the plan that it is."""
    whole = Rectangle(0, steps, 0, units)
    large, small = [(-float(whole.area), whole)], []
    for made in range(pinwheels):
        if not large:
            raise InstanceError(
                f"parameter pinwheels: {steps} steps x {units} units had room for {made}, found "
                f"{pinwheels}; give more steps or units"
            )
        _, rectangle = heappop(large)
        for piece in pinwheel(rectangle, rng):
            if min(piece.end - piece.start, piece.top - piece.bottom) < LEAST_SIDE:
                small.append(piece)
            else:
                heappush(large, (-piece.area * rng.uniform(0.5, 1), piece))
    return pack([*small, *(rectangle for _, rectangle in large)], rng)


def pinwheel(whole: Rectangle, rng: Random) -> list[Rectangle]:
    """Return four arms and a centre that fill a rectangle."""
    left, right = _inner_edges(whole.start, whole.end, rng)
    low, high = _inner_edges(whole.bottom, whole.top, rng)
    pieces = [
        Rectangle(whole.start, right, whole.bottom, low),
        Rectangle(right, whole.end, whole.bottom, high),
        Rectangle(left, whole.end, high, whole.top),
        Rectangle(whole.start, left, low, whole.top),
        Rectangle(left, right, low, high),
    ]
    if rng.random() < 0.5:
        return pieces
    turned = whole.start + whole.end
    return [Rectangle(turned - end, turned - start, b, t) for start, end, b, t in pieces]


def _inner_edges(low: int, high: int, rng: Random) -> tuple[int, int]:
    """Return two edges strictly within a side, about a third of it apart from each other."""
    third = max(1, (high - low) // 3)
    first = rng.randint(low + max(1, third // 2), low + third)
    return first, rng.randint(first + 1, max(first + 1, high - max(1, third // 2)))
