"""Where taking the smallest gap that fits ruins every large one.

Note [Best-fit trap]
~~~~~~~~~~~~~~~~~~~~
*The instance.* Blocks B(0), B(1), ..., B(k) of sizes L(i) = w + i follow each other; each starts
before the one before it ends. When B(i) has ended a lure of L(i) - 1 units comes, then a splinter
of one unit, which lasts to the end; then the lure ends.

*What best fit does.* The lure is larger than every gap that an earlier lure has left, and takes the
place of B(i). The splinter takes the smallest gap there is, the one unit beside the lure. When that
is gone, L(i) - 1 units are free and shut in between splinters: no later block fits, and each goes
on top. So all blocks lie on top of each other, (k + 1) w + k (k + 1) / 2 units.

*Why little is enough.* With the splinters at the bottom two places take turns, one for blocks with
even and one for blocks with odd numbers, and the lure lies where its block was: k - 1 splinters,
L(k - 1) and L(k), and as many units are alive when the last block starts. The last splinter takes
the unit beside the last lure.

*The gap.* With w = k**2 best fit comes close to k / 2 times the optimum: it grows with the number
of tensors, 3k + 1, itself. First fit puts the splinters low and loses little.
"""

from __future__ import annotations

from random import Random

from instances.synthetic.family import Drawing, family, require_between
from instances.synthetic.packing import Packing, Rectangle, pack

MOST_ROUNDS = 10_000


@family(rounds=2)
def best_fit_trap(rounds: int) -> Drawing:
    """Return tensors that best fit in the order of allocation places badly.

    Parameters
    ----------
    rounds
        Rounds k of Note [Best-fit trap], 2 to 10,000.

    Returns
    -------
    Problem
        Its optimum is its lifetime bound; best fit ends near ``rounds / 2`` times of it.
    """
    packing = splinter_in_rounds(rounds)
    return packing.drawing(
        f"best-fit-trap-{rounds}",
        "two places in turn beside the splinters; as many bytes are alive at one step",
    )


def splinter_in_rounds(rounds: int) -> Packing:
    """Return the tensors of the trap with the plan that keeps the splinters apart."""
    require_between("rounds", rounds, 2, MOST_ROUNDS)
    length = [rounds**2 + block for block in range(rounds + 1)]
    places = {(rounds - 1) % 2: rounds - 1, rounds % 2: rounds - 1 + length[rounds - 1]}
    end = 3 * rounds + 1
    rectangles = []
    for block in range(rounds + 1):
        start, bottom = max(0, 3 * block - 2), places[block % 2]
        gone = min(3 * block + 2, end)
        rectangles.append(Rectangle(start, gone, bottom, bottom + length[block]))
        if block == rounds:
            break
        lure = bottom + length[block] - 1
        rectangles.append(Rectangle(gone, gone + 2, bottom, lure))
        splinter = block if block < rounds - 1 else lure
        rectangles.append(Rectangle(gone + 1, end, splinter, splinter + 1))
    # One tensor a step: there is nothing to shuffle.
    return pack(rectangles, Random(0))
