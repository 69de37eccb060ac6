"""The exact knapsack against all packs, and its value against the capacity."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.recompute.exact_knapsack import best_pack

# Few different numbers, so that packs of equal weight and value are common.
NUMBERS = st.one_of(
    st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 3.0]), st.floats(0, 10, allow_subnormal=False)
)
ITEMS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=9)


def close_items(seed: int) -> list[tuple[float, float]]:
    """Return items of much the same value by weight, of which the densest are often wrong."""
    random = Random(seed)
    weights = [random.randint(0, 12) for _ in range(9)]
    return [(weight, weight + random.randint(0, 3)) for weight in weights]


def total(numbers: list[float], items: tuple[int, ...] | list[int]) -> Fraction:
    return sum((Fraction(numbers[item]) for item in items), Fraction(0))


def best_of_all(weights: list[float], values: list[float], capacity: float) -> tuple[Fraction, ...]:
    """Return the largest value, and the negative of the least weight that has it."""
    packs = [
        pack
        for count in range(len(weights) + 1)
        for pack in combinations(range(len(weights)), count)
    ]
    fitting = [pack for pack in packs if total(weights, pack) <= Fraction(capacity)]
    return max((total(values, pack), -total(weights, pack)) for pack in fitting)


@given(items=ITEMS, capacity=st.floats(0, 30))
def test_no_pack_is_better(items: list[tuple[float, float]], capacity: float) -> None:
    weights, values = [weight for weight, _ in items], [value for _, value in items]
    found = best_pack(weights, values, capacity)
    assert found == sorted(set(found))
    assert (total(values, found), -total(weights, found)) == best_of_all(weights, values, capacity)


@pytest.mark.parametrize("seed", range(60))
def test_no_pack_of_close_items_is_better(seed: int) -> None:
    weights, values = map(list, zip(*close_items(seed), strict=True))
    for capacity in (7.0, 19.0, 33.0):
        found = best_pack(weights, values, capacity)
        best = best_of_all(weights, values, capacity)
        assert (total(values, found), -total(weights, found)) == best


@given(items=ITEMS, capacities=st.lists(st.floats(0, 30), min_size=2, max_size=6))
def test_more_room_is_never_worth_less(
    items: list[tuple[float, float]], capacities: list[float]
) -> None:
    weights, values = [weight for weight, _ in items], [value for _, value in items]
    worth = [total(values, best_pack(weights, values, room)) for room in sorted(capacities)]
    assert worth == sorted(worth)


def test_a_tenth_three_times_is_more_than_three_tenths() -> None:
    assert best_pack([0.1, 0.1, 0.1], [1, 1, 1], 0.3) == [0, 1]
    assert best_pack([0.1, 0.1, 0.1], [1, 1, 1], 0.30000000000000004) == [0, 1, 2]


def test_no_room_at_all() -> None:
    assert best_pack([0, 1], [1, 1], 0) == [0]
    assert best_pack([0, 1], [1, 1], -1) == []
    assert best_pack([], [], 1) == []


def test_many_items_of_few_kinds() -> None:
    weights = [1 / (1 + item % 7) for item in range(700)]
    values = [float((item % 7) * (item % 11)) for item in range(700)]
    assert len(best_pack(weights, values, 50.0)) > 100


def test_many_items_of_nearly_equal_worth_are_packed_in_the_end() -> None:
    # Without a most of packs, these would double with every item.
    random = Random(3)
    weights = [float(random.randint(1 << 20, 1 << 24)) for _ in range(150)]
    values = [weight * random.uniform(0.99, 1.01) for weight in weights]
    capacity = sum(weights) / 2
    taken = best_pack(weights, values, capacity)
    assert sum(weights[item] for item in taken) <= capacity
    by_density = sorted(range(150), key=lambda item: -values[item] / weights[item])
    greedy, room = 0.0, capacity
    for item in by_density:
        if weights[item] <= room:
            greedy, room = greedy + values[item], room - weights[item]
    assert sum(values[item] for item in taken) >= greedy
