"""Where placing in the order of allocation fragments memory without end.

Note [First-fit trap]
~~~~~~~~~~~~~~~~~~~~~
*The instance.* 2m tensors of one unit fill addresses 0 to 2m. Then come rounds p = 1, 2, ..., k. At
the start of round p every tensor ends but those whose address, where first fit or best fit has put
it, is a multiple of 2**p: half of what is alive, m units. Tensors of 2**p units take their place,
m units in all. Each of those who stay leaves a hole of less than 2**p units below the next one, so
that no tensor of the round fits into a hole, and all of them go on top: m units a round, less the
2**(p - 1) that ended above the last of those who stay. The peak is 2m + km - 2**k + 1, and never
more than 2m are alive (the argument of Robson 1971).

*Why 2m are enough.* Who knows the future sorts by the round in which a tensor ends. The first fill
is a palindrome: those that end first in the middle, then those of the next round on both sides,
and so on outwards. What ends leaves a hole with the tensors of the next round on either side. Each
hole is filled by a palindrome that is turned inside out: those that end next on both edges, where
they touch the older ones that end with them, and those that last in the middle. So the holes of the
next round are twice as many and half as long each, all alike. They are long enough for whole
tensors if m = 2**(2k - 1).

*The gap.* In the order of allocation both fits end near (2 + k) / 2 times the optimum. That grows
with the logarithm of the number of tensors, 3m - m / 2**k.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from instances.synthetic.family import Drawing, family, require_between
from instances.synthetic.packing import Packing, Rectangle, pack

# Some 100,000 tensors.
MOST_ROUNDS = 8


@family(rounds=1)
def first_fit_trap(rounds: int) -> Drawing:
    """Return tensors that first fit and best fit in the order of allocation place badly.

    Parameters
    ----------
    rounds
        Rounds k of Note [First-fit trap], 1 to 8.

    Returns
    -------
    Problem
        Its optimum is its lifetime bound; those planners end near ``1 + rounds / 2`` times of it.
    """
    packing = fragment_in_rounds(rounds)
    return packing.drawing(
        f"first-fit-trap-{rounds}",
        "what ends together lies together, so that all fits into the most bytes alive",
    )


def fragment_in_rounds(rounds: int) -> Packing:
    """Return the tensors of the trap with the plan that knows the future."""
    require_between("rounds", rounds, 1, MOST_ROUNDS)
    half = 1 << (2 * rounds - 1)
    begins = [0]
    for number in range(rounds + 1):
        begins.append(begins[-1] + (half >> number if number else 2 * half))
    # A tensor that lasts to the end does so as if there were one more round.
    ends_at = [*begins[: rounds + 1], begins[-1]]
    rectangles: list[Rectangle] = []
    holes = [(0, 2 * half)]
    for number in range(rounds + 1):
        by_last = _by_last_round(number, begins[number + 1] - begins[number], rounds)
        inwards = sorted(by_last, reverse=number == 0)
        places = _fill_alike(holes, {last: by_last[last] for last in inwards}, 1 << number)
        for index, (bottom, last) in places.items():
            start = begins[number] + index
            rectangles.append(Rectangle(start, ends_at[last], bottom, bottom + (1 << number)))
        holes = _merged((r.bottom, r.top) for r in rectangles if r.end == ends_at[number + 1])
    # One tensor a step: there is nothing to shuffle.
    return pack(rectangles, Random(0))


def _by_last_round(number: int, count: int, rounds: int) -> dict[int, list[int]]:
    """Return the tensors of a round by the round that ends them, by their index in the round."""
    by_last: dict[int, list[int]] = {}
    for index in range(count):
        address = index << number
        last = next((p for p in range(number + 1, rounds + 1) if address % (1 << p)), rounds + 1)
        by_last.setdefault(last, []).append(index)
    return by_last


def _fill_alike(
    holes: list[tuple[int, int]], groups: dict[int, list[int]], size: int
) -> dict[int, tuple[int, int]]:
    """Return the bottom and the group of each tensor: every hole a palindrome of the groups."""
    places: dict[int, tuple[int, int]] = {}
    left = {key: iter(tensors) for key, tensors in groups.items()}
    *outer, middle = groups
    for bottom, top in holes:
        low, high = bottom, top
        for key in outer:
            for _ in range(len(groups[key]) // (2 * len(holes))):
                high -= size
                places[next(left[key])] = low, key
                places[next(left[key])] = high, key
                low += size
        for place in range(low, high, size):
            places[next(left[middle])] = place, middle
    return places


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans of addresses with those that touch made one."""
    merged: list[tuple[int, int]] = []
    for bottom, top in sorted(spans):
        if merged and merged[-1][1] == bottom:
            merged[-1] = merged[-1][0], top
        else:
            merged.append((bottom, top))
    return merged
