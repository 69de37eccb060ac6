"""Perfect packings, which fill a rectangle of time and memory, and problems that are cut from them.

No straight cut takes a pinwheel apart:

+---+-----------+   Four arms surround a centre. Every line from edge to edge crosses an
|   |     C     |   arm. An arm may be a pinwheel itself.
| D +-------+---+
|   |centre |   |
+---+-------+ B |
|     A     |   |
+-----------+---+
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush
from random import Random

import numpy as np

from instances.synthetic.family import (
    PERFECT,
    Drawing,
    Packing,
    Rectangle,
    family,
    pack,
    require_between,
)
from planners.errors import InstanceError


@family(tensors=1, steps=1, units=1)
def guillotine_packing(
    tensors: int, *, steps: int = 256, units: int = 4096, seed: int = 0
) -> Drawing:
    """Return tensors that fill a rectangle of time and memory exactly, made by guillotine cuts.

    Parameters
    ----------
    steps
        Steps of time, at least 1. The fewer, the more tensors start and end together.
    units
        Units of memory of 512 bytes, at least 1; with ``steps`` it has to leave a cell a tensor.

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
    # The larger of two areas mostly comes first. Twice the area always does, so that a single cell,
    # which cannot be cut, is never taken while another piece is left.
    heap = [(-float(whole.area), whole)]
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


# Steps and units that two arms and a centre need at least.
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

    Returns
    -------
    Problem
        Its optimum is the height of the rectangle, and so is its lifetime bound.
    """
    rng = Random(seed)
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
    packing = pack([*small, *(rectangle for _, rectangle in large)], rng)
    return packing.drawing(f"pinwheels-{pinwheels}", PERFECT)


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


@family(tensors=1, steps=1, units=1)
def tight_capacity(
    tensors: int, *, utilisation: float = 0.98, steps: int = 256, units: int = 4096, seed: int = 0
) -> Drawing:
    """Return tensors with a capacity in which they fit by construction, with little room to spare.

    A perfect packing loses some of its tensors; those alive at one step stay, so that this step
    needs the whole capacity.

    Parameters
    ----------
    tensors
        Number of tensors of the perfect packing, at least 1; a few less are left.
    utilisation
        Share of capacity x time that tensors fill, 0 to 1; reached as nearly as they allow.

    Returns
    -------
    Problem
        With a capacity, which is its optimum.
    """
    rng = Random(seed)
    require_between("utilisation", utilisation, 0, 1)
    whole = cut_by_guillotine(tensors, steps, units, rng)
    full_step = rng.randrange(steps)
    area = whole.size * (whole.end - whole.start)
    may_go = [*np.flatnonzero((whole.start > full_step) | (whole.end <= full_step)).tolist()]
    rng.shuffle(may_go)
    keep = np.ones(tensors, dtype=np.bool_)
    spare = (1 - utilisation) * int(area.sum())
    for tensor in may_go:
        if area[tensor] <= spare:
            spare -= int(area[tensor])
            keep[tensor] = False
    packing = Packing(whole.size[keep], whole.start[keep], whole.end[keep], whole.offset[keep])
    return packing.drawing(
        f"tight-{tensors}",
        "part of a perfect packing; one step needs the whole capacity",
        capacity=packing.height,
    )


@family(tensors=1, chains=0, chain_length=2, steps=1, units=1)
def chained_packing(
    tensors: int,
    *,
    chains: int = 8,
    chain_length: int = 3,
    steps: int = 256,
    units: int = 4096,
    seed: int = 0,
) -> Drawing:
    """Return a perfect packing with contiguous chains of tensors that touch in it.

    Members of a chain lie on top of each other in the known plan and are alive together at some
    step; some have the same lifetime, most do not.

    Parameters
    ----------
    chains
        Number of chains, at least 0.
    chain_length
        The most tensors of a chain, at least 2; a chain ends early if no free tensor lies above it.

    Returns
    -------
    Problem
        Its optimum is the height of the packing, and so is its lifetime bound.
    """
    rng = Random(seed)
    packing = cut_by_guillotine(tensors, steps, units, rng)
    return packing.drawing(
        f"chained-{tensors}-{chains}",
        "a perfect packing keeps every chain together; no step needs less",
        contiguous=chain_neighbours(packing, chains, chain_length, rng),
    )


def chain_neighbours(
    packing: Packing, chains: int, chain_length: int, rng: Random
) -> list[list[int]]:
    """Return chains of tensors that touch in a packing, each tensor in one at most."""
    above = _neighbours_above(packing)
    heads = rng.sample(sorted(above), len(above))
    taken: set[int] = set()
    found: list[list[int]] = []
    for head in heads:
        if len(found) == chains:
            break
        chain = _climb(head, above, taken, chain_length, rng)
        if len(chain) > 1:
            taken.update(chain)
            found.append(chain)
    if len(found) < chains:
        raise InstanceError(
            f"parameter chains: {len(found)} were found, {chains} are needed; ask for fewer or "
            f"shorter ones"
        )
    return found


def _climb(
    head: int, above: dict[int, list[int]], taken: set[int], most: int, rng: Random
) -> list[int]:
    """Return a chain from its first tensor upwards, or no chain if that tensor is taken."""
    if head in taken:
        return []
    chain = [head]
    while len(chain) < most:
        free = [tensor for tensor in above.get(chain[-1], []) if tensor not in taken]
        if not free:
            break
        chain.append(rng.choice(free))
    return chain


def _neighbours_above(packing: Packing) -> dict[int, list[int]]:
    """Return the tensors that touch each tensor from above and live at a common step."""
    starts_at: dict[int, list[int]] = defaultdict(list)
    for tensor, offset in enumerate(packing.offset.tolist()):
        starts_at[offset].append(tensor)
    start, end = packing.start.tolist(), packing.end.tolist()
    above: dict[int, list[int]] = {}
    for tensor, top in enumerate((packing.offset + packing.size).tolist()):
        together = [t for t in starts_at[top] if start[t] < end[tensor] and start[tensor] < end[t]]
        if together:
            above[tensor] = together
    return above
