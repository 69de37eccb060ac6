"""Memory layers by Algorithm 1, and global planning in them."""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import Budget, _core
from planners.homosize.global_plan import plan_globally
from planners.homosize.homophase import plan_locally
from planners.homosize.paper_variant import PaperVariant
from tests.planners.homosize import published
from tests.planners.homosize.published import Request, columns, requests

pytestmark = pytest.mark.core


def layers_of(lifetimes: list[tuple[int, int]]) -> list[int]:
    """Return the layers of half-open lifetimes, which come by their starts."""
    table = np.array(lifetimes, dtype=np.int64).reshape(-1, 2)
    start, end = (np.ascontiguousarray(column) for column in table.T)
    found: list[int] = _core.memory_layers(start, end).tolist()
    return found


def test_the_layer_that_ended_latest_is_taken() -> None:
    #  layer 1   b b b . d d       c ends before d starts, and so does a: b ended last
    #  layer 0   a a c . . .
    #  step      0 1 2 3 4 5
    assert layers_of([(0, 2), (0, 3), (2, 3), (4, 6)]) == [0, 1, 0, 0]
    assert layers_of([(0, 2), (0, 4), (2, 3), (4, 6)]) == [0, 1, 0, 1]


def test_a_layer_is_free_from_the_step_at_which_its_last_request_ends() -> None:
    """Strictly before, in closed times: [0, 1] and [2, 3] are apart, [0, 2] and [2, 3] are not."""
    assert layers_of([(0, 2), (2, 4)]) == [0, 0]
    assert layers_of([(0, 3), (2, 4)]) == [0, 1]


def test_of_equal_ends_the_lowest_layer_is_taken() -> None:
    assert layers_of([(0, 2), (1, 2), (2, 3), (2, 3)]) == [0, 1, 0, 1]


def test_no_requests() -> None:
    assert layers_of([]) == []


@given(drawn=requests(least=0, most=30))
def test_layers_are_those_of_the_listing(drawn: list[Request]) -> None:
    drawn = sorted(drawn, key=attrgetter("ts"))
    assert layers_of([(m.ts, m.te + 1) for m in drawn]) == published.algorithm_1(drawn)


@given(drawn=requests(least=0, most=30))
def test_there_are_no_more_layers_than_requests_at_one_time(drawn: list[Request]) -> None:
    layers = layers_of(sorted((m.ts, m.te + 1) for m in drawn))
    most = max((sum(m.ts <= t <= m.te for m in drawn) for t in range(30)), default=0)
    assert len(set(layers)) == most


# bytes
#   4   . . . d        A layer of four bytes, which a takes for two steps; beside each other lie
#   3   a a c d        c and b while it is idle. Only what comes before them hinders d, which is
#   2   a a c d        as large as the layer, from taking it, and nothing does.
#   1   a a b b
#   0   a a b b
# step  0 1 2 3
WHOLE = Request(4, 0, 1)
LOW = Request(2, 2, 3)
HIGH = Request(2, 2, 2)


def test_smaller_ones_lie_side_by_side_in_idle_time() -> None:
    plan = plan_globally([], columns([HIGH, WHOLE, LOW]), PaperVariant(beside=True))
    assert plan.layer.tolist() == [0, 0, 0]
    assert plan.within.tolist() == [0, 0, 2]
    assert plan.layer_size.tolist() == [4]
    assert plan.inserted.tolist() == [0, 2]
    assert plan.offsets(3).tolist() == [0, 0, 2]


def test_or_one_at_a_time() -> None:
    plan = plan_globally([], columns([HIGH, WHOLE, LOW]), PaperVariant(beside=False))
    assert plan.layer.tolist() == [0, 0, 1]
    assert plan.layer_size.tolist() == [4, 2]
    assert plan.inserted.tolist() == [0]
    assert plan.offsets(3).tolist() == [0, 0, 4]


def test_the_largest_or_the_smallest_layer_is_asked_first() -> None:
    drawn = [Request(5, 0, 1), Request(4, 0, 1), Request(3, 2, 3)]
    for layer, expected in (("largest", [0, 1, 0]), ("smallest", [0, 1, 1])):
        paper_variant = PaperVariant(layer=layer)  # type: ignore[arg-type]
        assert plan_globally([], columns(drawn), paper_variant).layer.tolist() == expected


def test_a_group_is_placed_as_one_request() -> None:
    # The group takes four bytes from step 0 to 3, though its second member dies after step 0.
    group = plan_locally(columns([Request(2, 0, 3, 0, 1), Request(2, 0, 0, 0, 1)]), PaperVariant())
    singles = columns([Request(2, 1, 1), Request(1, 4, 4)])
    singles.tensor[:] = [2, 3]
    plan = plan_globally([group], singles, PaperVariant())
    assert plan.layer_size.tolist() == [4, 2]
    assert plan.offsets(4).tolist() == [0, 2, 4, 0]


def test_nothing_to_plan() -> None:
    plan = plan_globally([], columns([]), PaperVariant())
    assert (plan.peak, plan.offsets(2).tolist()) == (0, [0, 0])


def test_no_time_is_told() -> None:
    with pytest.raises(TimeoutError):
        plan_globally(
            [], columns([Request(1, 0, 1)] * 200), PaperVariant(),
            Budget(time_limit_seconds=0.0).started(),
        )  # fmt: skip


@given(
    drawn=requests(least=0, most=30),
    layer=st.sampled_from(["largest", "smallest"]),
    beside=st.booleans(),
)
def test_global_planning_is_the_listing(drawn: list[Request], layer: str, beside: bool) -> None:
    drawn = sorted(drawn, key=lambda m: (-m.s, m.ts))
    paper_variant = PaperVariant(layer=layer, beside=beside)  # type: ignore[arg-type]
    plan = plan_globally([], columns(drawn), paper_variant)
    places, sizes = published.plan_globally(drawn, largest_first=layer == "largest", beside=beside)
    assert list(zip(plan.layer.tolist(), plan.within.tolist(), strict=True)) == places
    assert plan.layer_size.tolist() == sizes
