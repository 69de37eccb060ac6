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


@given(drawn=requests(least=0, most=30))
def test_layers_are_those_of_the_listing(drawn: list[Request]) -> None:
    drawn = sorted(drawn, key=attrgetter("ts"))
    assert layers_of([(m.ts, m.te + 1) for m in drawn]) == published.algorithm_1(drawn)


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


def test_a_group_is_placed_as_one_request() -> None:
    # The group takes four bytes from step 0 to 3, though its second member dies after step 0.
    group = plan_locally(columns([Request(2, 0, 3, 0, 1), Request(2, 0, 0, 0, 1)]), PaperVariant())
    singles = columns([Request(2, 1, 1), Request(1, 4, 4)])
    singles.tensor[:] = [2, 3]
    plan = plan_globally([group], singles, PaperVariant())
    assert plan.layer_size.tolist() == [4, 2]
    assert plan.offsets(4).tolist() == [0, 2, 4, 0]


def test_without_time_fusion_raises() -> None:
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
