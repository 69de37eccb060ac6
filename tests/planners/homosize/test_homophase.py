"""HomoPhase groups and their local plans."""

from __future__ import annotations

import pytest
from hypothesis import given

from planners.homosize.homophase import homophase_groups
from planners.homosize.paper_variant import PaperVariant
from planners.model.bounds import lifetime_bound
from planners.model.problem import Problem
from planners.registry import UnsupportedProblemError
from tests.planners.homosize import published
from tests.planners.homosize.published import Request, columns, requests

# Two activations of a forward pass (phase 0), freed in the backward pass (phase 1) in reverse, and
# a transient request in either:
#
#   bytes
#     3   . B B B . . .
#     2   A A A A A . .
#     1   . . t . . u .
#   step  0 1 2 3 4 5 6       phase 1 begins with step 3
A = Request(2, 0, 4, 0, 1)
B = Request(3, 1, 3, 0, 1)
T = Request(1, 2, 2, 0, 0)
U = Request(1, 5, 5, 1, 1)


def test_byte_steps_do_not_overflow() -> None:
    huge = Request(2**60, 0, 2**40 - 1, 0, 1)
    (plan,), _ = homophase_groups(columns([huge]), PaperVariant())
    assert plan.used == plan.reserved == 2**100
    assert plan.product == 1


@pytest.mark.parametrize(
    ("paper_variant", "addresses"),
    [
        (PaperVariant(order="end"), {2: 0, 0: 2}),
        (PaperVariant(order="start"), {2: 0, 0: 2}),
        (PaperVariant(order="size"), {0: 0, 2: 3}),
    ],
    ids=lambda value: value.order if isinstance(value, PaperVariant) else "",
)
def test_the_order_of_members_is_a_choice(
    paper_variant: PaperVariant, addresses: dict[int, int]
) -> None:
    (plan,), _ = homophase_groups(columns([B, T, A]), paper_variant)
    found = dict(zip(plan.requests.tensor.tolist(), plan.address.tolist(), strict=True))
    assert found == addresses


def test_transient_requests_may_be_a_group_and_share_its_bytes() -> None:
    # Two transient requests of one phase, one after the other.
    one, other = Request(4, 0, 0, 0, 0), Request(3, 1, 1, 0, 0)
    for packing, size in (("stacked", 7), ("reused", 4)):
        paper_variant = PaperVariant(transients="group", packing=packing)  # type: ignore[arg-type]
        (plan,), singles = homophase_groups(columns([one, other]), paper_variant)
        assert plan.size == size
        assert singles.count == 0


@given(drawn=requests(least=0))
def test_members_of_a_group_all_overlap_so_no_plan_of_theirs_is_smaller(
    drawn: list[Request],
) -> None:
    for plan in homophase_groups(columns(drawn), PaperVariant())[0]:
        members = plan.requests
        problem = Problem(members.size, members.start, members.end)
        assert plan.size == lifetime_bound(problem).bytes


def test_groups_with_a_small_product_are_dissolved() -> None:
    # 10 + 9 of 25 byte-steps are used.
    for least, count in ((0.76, 1), (0.77, 0)):
        plans, singles = homophase_groups(columns([B, T, A, U]), PaperVariant(least_product=least))
        assert len(plans) == count
        assert singles.tensor.tolist() == ([1, 3] if count else [0, 1, 2, 3])


@pytest.mark.parametrize("least", [-0.1, 1.1, float("nan")])
def test_a_least_product_is_a_share(least: float) -> None:
    with pytest.raises(UnsupportedProblemError, match="a share from 0 to 1 is needed, found"):
        PaperVariant(least_product=least)


def test_without_phases_nothing_is_grouped() -> None:
    plans, singles = homophase_groups(columns([A, B]), PaperVariant(phases=False))
    assert plans == []
    assert singles.count == 2


@given(drawn=requests(least=0))
def test_groups_are_the_published_ones(drawn: list[Request]) -> None:
    plans, singles = homophase_groups(columns(drawn), PaperVariant())
    expected = published.groups(drawn)
    assert [(plan.phase_start, plan.phase_end) for plan in plans] == sorted(expected)
    for plan in plans:
        decisions = published.pack(expected[plan.phase_start, plan.phase_end])
        assert [drawn[t] for t in plan.requests.tensor] == [d.m for d in decisions]
        assert plan.address.tolist() == [d.a for d in decisions]
        assert plan.product == published.product(decisions)
    assert [drawn[t] for t in singles.tensor] == [m for m in drawn if m.ps == m.pe]
