"""The search for the largest value, over programs whose need is a formula."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpu_runtime.fitting.largest_value import FLAT, MOST, LargestValues, search_largest
from gpu_runtime.fitting.rank_fit import RankFit
from planners.errors import InstanceError
from tests.gpu_runtime.fitting.made_fits import Need, by_formula

ROOM = 100_000


def line(value: int) -> int:
    return 7_000 + 123 * value


def stairs(value: int) -> int:
    """Segments come in large pieces."""
    return -(-line(value) // 20_000) * 20_000


def parabola(value: int) -> int:
    return 500 + 3 * value * value


def steep(value: int) -> int:
    return 60_000 * value


NEEDS: dict[str, Need] = {need.__name__: need for need in (line, stairs, parabola, steep)}


def searched(*needs: Need, start: int = 32, by: int = 1) -> LargestValues:
    found = LargestValues("batch", ROOM, by)
    search_largest(found, [need.__name__ for need in needs], start, by_formula(ROOM, *needs))
    return found


@pytest.mark.parametrize("by", [1, 8])
@pytest.mark.parametrize("start", [1, 32, 5_000])
@pytest.mark.parametrize("name", NEEDS)
def test_the_largest_multiple_that_fits_is_found(name: str, start: int, by: int) -> None:
    need = NEEDS[name]
    found = searched(need, start=start, by=by)
    right = max((value for value in range(by, 2_000, by) if need(value) <= ROOM), default=None)
    assert found.largest(name) == right
    assert found.is_found(name)
    assert all(value % by == 0 for value in found.tried)


@pytest.mark.parametrize("name", NEEDS)
def test_it_takes_few_traces(name: str) -> None:
    assert len(searched(NEEDS[name]).tried) <= 14


def test_allocators_share_what_was_tried() -> None:
    alone = len(searched(line).tried) + len(searched(parabola).tried)
    both = searched(line, parabola)
    assert len(both.tried) < alone
    assert (both.largest("line"), both.largest("parabola")) == (756, 182)


def test_no_value_is_tried_twice() -> None:
    tried: list[int] = []

    def check(values: Mapping[str, int]) -> RankFit:
        tried.append(values["batch"])
        return by_formula(ROOM, *NEEDS.values())(values)

    search_largest(LargestValues("batch", ROOM, 1), list(NEEDS), 32, check)
    assert len(tried) == len(set(tried))


def test_an_interrupted_search_keeps_tried_values() -> None:
    found = LargestValues("batch", ROOM, 1)

    def check(values: Mapping[str, int]) -> RankFit:
        if len(found.tried) == 2:
            raise KeyboardInterrupt
        return by_formula(ROOM, line)(values)

    with pytest.raises(KeyboardInterrupt):
        search_largest(found, ["line"], 32, check)
    assert list(found.tried) == [32, 64]
    assert found.largest("line") == 64
    assert not found.is_found("line")


def test_a_search_without_a_limit_ends_at_the_most() -> None:
    def tiny(value: int) -> int:
        return value // 100

    assert searched(tiny).largest("tiny") == MOST
    assert searched(tiny, by=3).largest("tiny") == MOST // 3 * 3


def test_a_parameter_that_memory_does_not_grow_with_is_refused() -> None:
    def flat(_value: int) -> int:
        return 1_024

    found = LargestValues("seed", ROOM, 1)
    said = r"--vary seed: a parameter that memory grows with .* 1\.000 KiB \(1,024\) at 32 and "
    with pytest.raises(InstanceError, match=said):
        search_largest(found, ["flat"], 32, by_formula(ROOM, flat))
    assert max(found.tried) < 16 * FLAT * 32


def test_finds_the_largest_value_of_a_late_growth() -> None:
    def late(value: int) -> int:
        return max(50_000, 300 * value)

    assert searched(late, start=1).largest("late") == 333


def test_a_value_that_fits_above_one_that_does_not_is_seen() -> None:
    def bumpy(value: int) -> int:
        return ROOM + 1 if value == 40 else value

    found = LargestValues("batch", ROOM, 1)
    for value in (32, 40, 64):
        found.tried[value] = by_formula(ROOM, bumpy)({"batch": value})
    assert found.fitting_above("bumpy") == [64]
    assert (found.largest("bumpy"), found.least_too_large("bumpy")) == (32, 40)
