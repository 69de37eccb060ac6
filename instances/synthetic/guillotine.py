"""Perfect packings that straight cuts from edge to edge take apart."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from random import Random

from instances.synthetic.family import Drawing, family
from instances.synthetic.packing import PERFECT, Packing, Rectangle, pack
from planners.errors import InstanceError


@family(tensors=1, steps=1, units=1)
def guillotine_packing(
    tensors: int, *, steps: int = 256, units: int = 4096, seed: int = 0
) -> Drawing:
    """Return tensors that fill a rectangle of time and memory exactly, made by guillotine cuts.

    Parameters
    ----------
    tensors
        Number of tensors, at least 1.
    steps
        Steps of time, at least 1. The fewer, the more tensors start and end together.
    units
        Units of memory of 512 bytes, at least 1; with ``steps`` it has to leave a cell a tensor.
    seed
        Start of every random choice.

    Returns
    -------
    Problem
        Its optimum is the height of the rectangle, and so is its lifetime bound.
    """
    packing = cut_by_guillotine(tensors, steps, units, Random(seed))
    return packing.drawing(f"guillotine-{tensors}", PERFECT)


def cut_by_guillotine(tensors: int, steps: int, units: int, rng: Random) -> Packing:
    """Return a rectangle cut into tensors, with the plan that it is."""
    return pack(cut_rectangle(Rectangle(0, steps, 0, units), tensors, rng), rng)


def cut_rectangle(whole: Rectangle, pieces: int, rng: Random) -> list[Rectangle]:
    """Cut a rectangle from edge to edge, and a piece of it again, until there are enough."""
    if pieces > whole.area:
        raise InstanceError(
            f"parameter tensors: at most one a cell of the rectangle, {whole.area}, is possible, "
            f"found {pieces}; give more steps or units"
        )
    # Of two areas the larger mostly comes first; twice the area always does, so that a single
    # cell, which cannot be cut, waits for all others.
    heap = [(-float(whole.area), whole)]
    heapify(heap)
    while len(heap) < pieces:
        _, rectangle = heappop(heap)
        for piece in _cut_in_two(rectangle, rng):
            heappush(heap, (-piece.area * rng.uniform(0.5, 1), piece))
    return [rectangle for _, rectangle in heap]


def _cut_in_two(rectangle: Rectangle, rng: Random) -> tuple[Rectangle, Rectangle]:
    start, end, bottom, top = rectangle
    across_time = rng.random() < 0.5
    if end - start == 1 or (top - bottom > 1 and not across_time):
        height = rng.randrange(bottom + 1, top)
        return Rectangle(start, end, bottom, height), Rectangle(start, end, height, top)
    step = rng.randrange(start + 1, end)
    return Rectangle(start, step, bottom, top), Rectangle(step, end, bottom, top)
