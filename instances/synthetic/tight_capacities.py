"""Does it fit? Memory that is filled almost throughout, and a plan that is known to fit."""

from __future__ import annotations

from random import Random

import numpy as np

from instances.synthetic.family import Drawing, family, require_between
from instances.synthetic.guillotine import cut_by_guillotine
from instances.synthetic.packing import Packing


@family(tensors=1, steps=1, units=1)
def tight_capacity(
    tensors: int,
    *,
    utilisation: float = 0.98,
    steps: int = 256,
    units: int = 4096,
    seed: int = 0,
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
    steps, units
        Steps of time, and units of memory of 512 bytes.
    seed
        Start of every random choice.

    Returns
    -------
    Problem
        With a capacity, which is its optimum.
    """
    packing = thin_out(tensors, utilisation, steps, units, Random(seed))
    return packing.drawing(
        f"tight-{tensors}",
        "part of a perfect packing; one step needs the whole capacity",
        capacity=packing.height,
    )


def thin_out(tensors: int, utilisation: float, steps: int, units: int, rng: Random) -> Packing:
    """Return a perfect packing without some of its tensors, none of which live at a chosen step."""
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
    return Packing(whole.size[keep], whole.start[keep], whole.end[keep], whole.offset[keep])
