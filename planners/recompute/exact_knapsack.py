"""The 0/1 knapsack, solved exactly whatever the units of its numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from heapq import merge
from itertools import accumulate
from math import lcm
from typing import NamedTuple

# Most packs that are kept. With more, items of nearly equal worth would take for ever.
MOST_PACKS = 3_000


class _Pack(NamedTuple):
    """Some of the items that were decided so far."""

    weight: int
    value: int
    # The item that was taken last, and the pack before it.
    item: int
    before: _Pack | None


def best_pack(weights: Sequence[float], values: Sequence[float], capacity: float) -> list[int]:
    """Return the items of the largest value that fit together, and of these one of the lightest.

    Items are decided in the order of their value by weight. Of the packs of the items decided so
    far, only those are kept that no other one beats in weight and value, and that may still become
    better than the best one known, by the bound in which the last item may be cut. Sums are exact,
    so the value never falls as the capacity rises. If more than ``MOST_PACKS`` are left, some of
    them are given up, and then the result need not be the best. Nemhauser and Ullmann 1969;
    Pisinger 1997 for the bound.
    """
    if capacity < 0:
        return []
    whole_weights, whole_capacity = _whole([*weights, capacity])
    whole_values, _ = _whole([*values, 0])
    items = [item for item, weight in enumerate(whole_weights) if weight <= whole_capacity]
    items.sort(key=lambda item: _density(whole_values[item], whole_weights[item]), reverse=True)
    bound = _Bound([whole_weights[item] for item in items], [whole_values[item] for item in items])
    packs = [_Pack(0, 0, -1, None)]
    known = 0
    for place, item in enumerate(items):
        weight, value = whole_weights[item], whole_values[item]
        taken = [
            _Pack(pack.weight + weight, pack.value + value, item, pack)
            for pack in packs
            if pack.weight + weight <= whole_capacity
        ]
        packs = _undominated(packs, taken)
        room = [whole_capacity - pack.weight for pack in packs]
        sure = [
            pack.value + bound.whole(place + 1, left)
            for pack, left in zip(packs, room, strict=True)
        ]
        known = max(known, *sure)
        packs = [
            pack
            for pack, left in zip(packs, room, strict=True)
            if pack.value + bound.cut(place + 1, left) >= known
        ]
        packs = _thinned(packs, bound, place + 1, whole_capacity)
    # Behind the last item the bound leaves the best pack alone.
    best: _Pack | None = packs[-1]
    chosen = []
    while best is not None and best.item >= 0:
        chosen.append(best.item)
        best = best.before
    return sorted(chosen)


class _Bound:
    """Values of the next items that fit, in their order, from sums over all."""

    def __init__(self, weights: Sequence[int], values: Sequence[int]) -> None:
        self._weights = weights
        self._values = values
        self._weight_before = list(accumulate(weights, initial=0))
        self._value_before = list(accumulate(values, initial=0))

    def whole(self, start: int, room: int) -> int:
        """Return the value of the items from one on, up to the first that does not fit."""
        return self._value_before[self._end(start, room)] - self._value_before[start]

    def cut(self, start: int, room: int) -> int:
        """Return at least what any of the items from one on can be worth in this room."""
        end = self._end(start, room)
        value = self._value_before[end] - self._value_before[start]
        if end == len(self._weights):
            return value
        left = room - (self._weight_before[end] - self._weight_before[start])
        return value + self._values[end] * left // self._weights[end]

    def _end(self, start: int, room: int) -> int:
        return bisect_right(self._weight_before, self._weight_before[start] + room) - 1


def _undominated(packs: Sequence[_Pack], taken: Sequence[_Pack]) -> list[_Pack]:
    """Merge packs in the order of their weights, without those that are worth no more than one."""
    kept: list[_Pack] = []
    for pack in merge(packs, taken, key=lambda pack: (pack.weight, -pack.value)):
        if not kept or pack.value > kept[-1].value:
            kept.append(pack)
    return kept


def _thinned(packs: list[_Pack], bound: _Bound, place: int, capacity: int) -> list[_Pack]:
    """Return at most ``MOST_PACKS`` packs, those that may become the best by their bounds."""
    if len(packs) <= MOST_PACKS:
        return packs

    def most(pack: _Pack) -> int:
        return pack.value + bound.cut(place, capacity - pack.weight)

    # The pack that is sure to reach the value known comes first.
    sure = max(packs, key=lambda pack: pack.value + bound.whole(place, capacity - pack.weight))
    others = [pack for pack in packs if pack is not sure]
    chosen = [sure, *sorted(others, key=most, reverse=True)[: MOST_PACKS - 1]]
    return sorted(chosen, key=lambda pack: pack.weight)


def _density(value: int, weight: int) -> tuple[bool, Fraction]:
    return (True, Fraction(0)) if weight == 0 else (False, Fraction(value, weight))


def _whole(numbers: Sequence[float]) -> tuple[list[int], int]:
    """Return numbers, of which the last one comes apart, as whole multiples of one unit."""
    exact = [Fraction(number) for number in numbers]
    unit = lcm(*(number.denominator for number in exact))
    *first, last = (int(number * unit) for number in exact)
    return first, last
