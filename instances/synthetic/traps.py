"""Problems whose optimum a simple placement rule or the lifetime bound misses.

Note [First-fit trap]
~~~~~~~~~~~~~~~~~~~~~
*The instance.* 2m tensors of one unit fill addresses 0 to 2m. Then come rounds p = 1, 2, ..., k. At
the start of round p, tensors end unless first fit or best fit has placed them at a multiple of
2**p. The tensors that end are half of the live units, m units. Then new tensors of 2**p units each
start, m units in all. Each hole between two tensors that stay has less than 2**p units, so all new
tensors go on top. That adds m units a round, less the 2**(p - 1) units that ended above the last
tensor that stays. The peak is 2m + km - 2**k + 1, and never more than 2m units are alive (the
argument of Robson 1971).

*Why 2m are enough.* A planner with foresight sorts tensors by the round in which they end. The
first fill is a palindrome: tensors that end first lie in the middle, those of the next round on
both sides, and so on outwards. Tensors that end leave a hole between tensors of the next round.
A palindrome turned inside out fills each hole: tensors that end next lie on both edges, where they
touch older ones that end with them, and tensors that end last lie in the middle. So the next round
has twice as many holes of half the length, all alike. They hold whole tensors if m = 2**(2k - 1).

*The gap.* In the order of allocation both fits end near (2 + k) / 2 times the optimum. This ratio
grows with the logarithm of the number of tensors, 3m - m / 2**k.

Note [Best-fit trap]
~~~~~~~~~~~~~~~~~~~~
*The instance.* Blocks B(0), B(1), ..., B(k) of sizes L(i) = w + i follow each other; each starts
before the one before it ends. When B(i) has ended, a lure of L(i) - 1 units starts, then a splinter
of one unit that lasts to the end; then the lure ends.

*What best fit does.* The lure is larger than every gap that an earlier lure has left, and takes the
place of B(i). The splinter takes the smallest gap, the one unit beside the lure. When the lure has
ended, its L(i) - 1 units are free between splinters: no later block fits there, and each goes on
top. So all blocks lie on top of each other, (k + 1) w + k (k + 1) / 2 units.

*Why little is enough.* Above the splinters two places suffice, one for blocks with even and one for
blocks with odd numbers, and each lure takes the place of its block. That is k - 1 splinters and
L(k - 1) + L(k) units, and as many units are alive when the last block starts. The last splinter
takes the unit beside the last lure.

*The gap.* With w = k**2 best fit comes close to k / 2 times the optimum. This ratio grows linearly
with the number of tensors, 3k + 1. First fit puts the splinters low and loses little.

Note [Size-order trap]
~~~~~~~~~~~~~~~~~~~~~~
*The instance.* Tensors a, b, c, d of almost one size; only neighbours in this row overlap in time.

    d          +-----+        The order of sizes is a, d, b, c. First a and d, which are never
    c       +-----+           alive together, get address 0. Then b has to go above a. At last c
    b    +-----+              is alive with both b and d, and goes on top of d and b.
    a +-----+

*Why two are enough.* One place serves a and c, the other b and d, as two colours do for a path.

*The gap.* With sizes w + 3, w + 1, w, w + 2 the optimum is 2w + 4 units, what a and b need; first
fit and best fit by size end at 3w + 4. Copies one after the other keep that ratio of nearly 3 / 2.
This is the smallest bad case of first fit as a colouring of interval graphs.

Note [Neighbour ring]
~~~~~~~~~~~~~~~~~~~~~
*The instance.* 2p tensors of one unit, called units, are alive together and fill a capacity of 2p
units. They are numbered in a ring 1, 2, ..., 2p, 1. At first p tensors of two units fill the
memory. These end one after the other, and when one ends two units start: 1 and 2, then 3 and 4, and
so on. Afterwards the units end in pairs, and when a pair ends a tensor of two units starts that
lives to the end. But now 2 and 3 are the first pair, then 4 and 5, and the last pair is 2p and 1.

*Why no plan fits.* Every step needs the whole capacity, and at each change all but three tensors
stay where they are. So two units that start together take the place of the tensor of two units that
ended, and two units that end together leave their place to one tensor. In both cases the two units
are neighbours in memory. So all 2p pairs that follow each other in the ring are neighbours, but 2p
units in a row have only 2p - 1 pairs of neighbours.

*Why one unit more is enough.* Units 1 to 2p in a row have all the pairs but 2p and 1. The tensor
that follows these two starts where 2p was, and takes the free unit above it.

*Limits.* No peak lies in between: sizes are multiples of a unit, and so is the least peak. The gap
between the lifetime bound and the optimum is 1 / 2p, and no set of unsafe tensors shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from instances.synthetic.family import UNIT_BYTES, Drawing, Rectangle, family, pack, require_between

# Rounds of a first-fit trap of some 100,000 tensors, and of a best-fit trap of 30,001.
MOST_FIRST_FIT_ROUNDS, MOST_BEST_FIT_ROUNDS = 8, 10_000
STEPS_A_COPY = 7


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
    require_between("rounds", rounds, 1, MOST_FIRST_FIT_ROUNDS)
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
    packing = pack(rectangles, Random(0))
    return packing.drawing(
        f"first-fit-trap-{rounds}",
        "what ends together lies together, so that all fits into the most bytes alive",
    )


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
    require_between("rounds", rounds, 2, MOST_BEST_FIT_ROUNDS)
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
    packing = pack(rectangles, Random(0))
    return packing.drawing(
        f"best-fit-trap-{rounds}",
        "two places in turn beside the splinters; as many bytes are alive at one step",
    )


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
    rectangles = []
    for copy in range(copies):
        now = STEPS_A_COPY * copy
        rectangles += [
            Rectangle(now, now + 2, 0, units + 3),
            Rectangle(now + 1, now + 4, units + 3, 2 * units + 4),
            Rectangle(now + 3, now + 6, 0, units),
            Rectangle(now + 5, now + 7, units, 2 * units + 2),
        ]
    packing = pack(rectangles, Random(0))
    return packing.drawing(
        f"size-order-trap-{copies}",
        "every other tensor of a path at the bottom; the first two are alive together",
    )


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
