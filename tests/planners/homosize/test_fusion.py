"""Fusion of adjacent groups: the stepping, the product, and who fuses with whom."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import Budget, _core
from planners.homosize.fusion import are_adjacent, fuse, fuse_adjacent, merit
from planners.homosize.homophase import LocalPlan, homophase_groups, plan_locally
from planners.homosize.paper_variant import PaperVariant
from tests.planners.homosize import published
from tests.planners.homosize.published import PlacedRequest, Request, columns, requests

pytestmark = pytest.mark.core


FUSION_CHOICES = {
    "leftover": ["top", "group"],
    "acceptance": ["average", "product"],
    "weight": ["reserved", "bytes", "requests"],
    "partner": ["first", "best"],
    "packing": ["stacked", "reused"],
    "transients": ["single", "group"],
}


def local_plan(members: list[Request]) -> LocalPlan:
    """Return members stacked in the order in which they are given."""
    return plan_locally(columns(members), PaperVariant())


# bytes
#   4   D                 The host lies at 0 to 3: A for all of it, B at first. Guests come in
#   3   B B D .           phase 1. At address 0 lies A. At address 2 C fits, for B is dead then.
#   2   B B C C           Behind it, at 3, D fits, for the same reason; and it is C that came
#   1   A A A A           first, for it starts first.
#   0   A A A A
# step  0 1 2 3
HOST = local_plan([Request(2, 0, 3, 0, 1), Request(2, 0, 1, 0, 1)])
GUEST = local_plan([Request(1, 3, 3, 1, 2), Request(1, 2, 3, 1, 2)])


def test_guests_go_where_the_host_is_dead_the_earliest_first() -> None:
    (fused,) = fuse(HOST, GUEST, PaperVariant())
    assert fused.address.tolist() == [0, 2, 2, 3]
    assert fused.requests.start.tolist() == [0, 0, 2, 3]
    assert (fused.size, fused.phase_start, fused.phase_end) == (4, 0, 2)


def test_the_smaller_one_is_the_guest_whatever_the_order() -> None:
    one, other = (fuse(*pair, PaperVariant())[0] for pair in ((GUEST, HOST), (HOST, GUEST)))
    assert one.address.tolist() == other.address.tolist()


def test_a_guest_without_a_place_may_become_a_group_of_its_own() -> None:
    # Two bytes are free from step 2 on: not enough for the first guest, and enough for the second.
    guest = local_plan([Request(3, 2, 3, 1, 2), Request(1, 3, 3, 1, 2)])
    fused, rest = fuse(HOST, guest, PaperVariant(leftover="group"))
    assert fused.requests.size.tolist() == [2, 2, 1]
    assert fused.address.tolist() == [0, 2, 2]
    assert (rest.requests.size.tolist(), rest.address.tolist()) == ([3], [0])
    assert (rest.phase_start, rest.phase_end) == (1, 2)


def test_a_group_that_finds_no_place_at_all_is_not_fused() -> None:
    groups = [local_plan([Request(4, 0, 9, 0, 1)]), local_plan([Request(2, 5, 14, 1, 2)])]
    for acceptance in ("average", "product"):
        paper_variant = PaperVariant(leftover="group", acceptance=acceptance)  # type: ignore[arg-type]
        plans, (trial,) = fuse_adjacent(groups, paper_variant)
        assert trial.before == trial.after
        assert plans == groups


def test_a_leftover_group_stands_in_the_place_of_the_guest_and_is_fused_again() -> None:
    host = local_plan([Request(4, 0, 9, 0, 1), Request(4, 0, 4, 0, 1)])
    guest = local_plan([Request(3, 5, 9, 1, 2), Request(3, 5, 9, 1, 2)])
    last = local_plan([Request(9, 5, 20, 2, 3)])
    plans, trials = fuse_adjacent([host, guest, last], PaperVariant(leftover="group"))
    assert [plan.requests.size.tolist() for plan in plans] == [[4, 4, 3], [3], [9]]
    assert [trial.accepted for trial in trials].count(True) == 1


def test_a_fusion_that_leaves_more_bubbles_is_refused() -> None:
    # The guest fits without another byte, but the host's bytes are kept twice as long.
    host = local_plan([Request(4, 0, 9, 0, 1)])
    guest = local_plan([Request(1, 10, 19, 1, 2)])
    plans, (trial,) = fuse_adjacent([host, guest], PaperVariant())
    assert (trial.before, trial.after) == (1, Fraction(5, 8))
    assert not trial.accepted
    assert plans == [host, guest]


def chain_of_groups() -> list[LocalPlan]:
    """Return a host, and two groups that follow each other where its upper half is dead."""
    return [
        local_plan([Request(4, 0, 9, 0, 1), Request(4, 0, 4, 0, 1)]),
        local_plan([Request(2, 5, 6, 1, 2)]),
        local_plan([Request(2, 7, 9, 2, 3)]),
    ]


def test_fused_groups_are_fused_again_if_that_is_chosen() -> None:
    groups = chain_of_groups()
    plans, trials = fuse_adjacent(groups, PaperVariant(again=True))
    assert len(plans) == 1
    assert (plans[0].phase_start, plans[0].phase_end) == (0, 3)
    assert plans[0].address.tolist() == [0, 4, 4, 4]
    assert sum(trial.accepted for trial in trials) == 2
    plans, trials = fuse_adjacent(groups, PaperVariant(again=False))
    assert len(plans) == 2
    assert sum(trial.accepted for trial in trials) == 1


def test_of_several_partners_the_best_may_be_taken() -> None:
    host = local_plan([Request(4, 0, 9, 0, 1), Request(4, 0, 4, 0, 1)])
    small, other = (local_plan([Request(bytes_, 5, 9, 1, 2)]) for bytes_ in (1, 2))
    large = local_plan([Request(4, 5, 9, 1, 3)])
    partners = [small, large, other]
    plans, _ = fuse_adjacent([host, *partners], PaperVariant(partner="first", again=False))
    assert [plan.size for plan in plans] == [8, 4, 2]
    plans, _ = fuse_adjacent([host, *partners], PaperVariant(partner="best", again=False))
    assert [plan.size for plan in plans] == [8, 1, 2]


def test_without_fusion_nothing_is_tried() -> None:
    groups = chain_of_groups()
    assert fuse_adjacent(groups, PaperVariant(fusion=False)) == (groups, [])


def test_weights_of_the_average() -> None:
    one = local_plan([Request(3, 0, 3, 0, 1)])
    other = local_plan([Request(1, 2, 5, 1, 2), Request(1, 2, 3, 1, 2)])
    # Products 1 and 3/4; reserved 12 and 8 byte-steps, 3 and 2 bytes, 1 and 2 requests.
    expected = {"reserved": Fraction(9, 10), "bytes": Fraction(9, 10), "requests": Fraction(5, 6)}
    for weight, average in expected.items():
        paper_variant = PaperVariant(weight=weight)  # type: ignore[arg-type]
        assert merit([one, other], paper_variant) == average


def test_a_fusion_may_be_accepted_by_the_product_of_both_terms() -> None:
    one = local_plan([Request(3, 0, 3, 0, 1)])
    other = local_plan([Request(1, 2, 5, 1, 2), Request(1, 2, 3, 1, 2)])
    paper_variant = PaperVariant(acceptance="product")
    assert merit([one, other], paper_variant) == Fraction(3, 4)
    assert merit([other], paper_variant) == Fraction(9, 16)
    groups = [
        local_plan([Request(4, 0, 7, 0, 1), Request(4, 0, 1, 0, 1)]),
        local_plan([Request(2, 4, 7, 1, 2), Request(2, 6, 7, 1, 2)]),
    ]
    _, (average,) = fuse_adjacent(groups, PaperVariant())
    _, (product,) = fuse_adjacent(groups, paper_variant)
    assert (average.before, average.after) == (Fraction(52, 80), Fraction(13, 16))
    assert (product.before, product.after) == (
        Fraction(5, 8) * Fraction(3, 4),
        Fraction(13, 16) ** 2,
    )


def test_without_time_fusion_raises() -> None:
    many = local_plan([Request(1, 0, 1, 0, 1)] * 200)
    with pytest.raises(TimeoutError):
        fuse(many, many, PaperVariant(), Budget(time_limit_seconds=0.0).started())


@given(drawn=requests(), guests=requests(), within=st.booleans())
def test_the_core_steps_as_published(
    drawn: list[Request], guests: list[Request], within: bool
) -> None:
    host = published.pack(drawn)
    guests = sorted(guests, key=lambda m: m.ts)
    packed, invited = columns([d.m for d in host]), columns(guests)
    address = np.array([d.a for d in host], dtype=np.int64)
    found = _core.fuse_local_plans(
        packed.size, packed.start, packed.end, address,
        invited.size, invited.start, invited.end, within, 60.0,
    )  # fmt: skip
    assert found.tolist() == published.insert_guests(host, guests, within=within)


ALL_READINGS = [
    PaperVariant(**dict(zip(FUSION_CHOICES, values, strict=True)))
    for values in product(*FUSION_CHOICES.values())
]


@given(drawn=requests(least=6, most=30), paper_variant=st.sampled_from(ALL_READINGS))
def test_all_plans_are_valid_and_hold_every_request(
    drawn: list[Request], paper_variant: PaperVariant
) -> None:
    groups, _ = homophase_groups(columns(drawn), paper_variant)
    plans, trials = fuse_adjacent(groups, paper_variant)
    for trial in trials:
        assert trial.accepted == (trial.after > trial.before)
    if paper_variant.leftover == "top":
        fused, accepted = len(groups) - len(plans), sum(trial.accepted for trial in trials)
        assert bool(fused) == bool(accepted)
        # Of several partners that would do, the best is taken and the others stay.
        assert fused == accepted if paper_variant.partner == "first" else fused <= accepted
    if paper_variant.acceptance == "average" and paper_variant.weight == "reserved":
        assert sum(plan.reserved for plan in plans) <= sum(group.reserved for group in groups)
    members = [sorted(tensor for plan in found for tensor in plan.requests.tensor.tolist())
               for found in (groups, plans)]  # fmt: skip
    assert members[0] == members[1]
    for plan in plans:
        require_no_clash(decisions_of(plan, drawn))


@given(drawn=requests(least=6, most=30))
def test_products_are_those_of_the_listing(drawn: list[Request]) -> None:
    groups, _ = homophase_groups(columns(drawn), PaperVariant())
    for one in groups:
        for other in groups:
            if one is not other and are_adjacent(one, other):
                (fused,) = fuse(one, other, PaperVariant())
                assert fused.product == published.product(decisions_of(fused, drawn))


def decisions_of(plan: LocalPlan, drawn: list[Request]) -> list[PlacedRequest]:
    pairs = zip(plan.requests.tensor.tolist(), plan.address.tolist(), strict=True)
    return [PlacedRequest(drawn[tensor], address) for tensor, address in pairs]


def require_no_clash(decisions: list[PlacedRequest]) -> None:
    for index, one in enumerate(decisions):
        for other in decisions[:index]:
            assert not (
                published.clash(one.m, other.m)
                and published.overlap(one.a, one.m.s, other.a, other.m.s)
            )
