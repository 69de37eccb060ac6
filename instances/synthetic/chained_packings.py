"""Perfect packings in which some vertical neighbours have to stay neighbours: chains."""

from __future__ import annotations

from collections import defaultdict
from random import Random

from instances.synthetic.family import Drawing, family
from instances.synthetic.guillotine import cut_by_guillotine
from instances.synthetic.packing import Packing
from planners.errors import InstanceError


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
    tensors
        Number of tensors, at least 1.
    chains
        Number of chains, at least 0.
    chain_length
        The most tensors a chain, at least 2; where nothing touches its end a chain is shorter.
    steps, units
        Steps of time, and units of memory of 512 bytes.
    seed
        Start of every random choice.

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
    """Return a chain from its first tensor upwards; empty where that is taken."""
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
    """Return which tensors lie on top of each, and are alive together with it."""
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
