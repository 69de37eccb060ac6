"""A problem in the units of a package: nothing rounds, and what cannot be said is refused."""

from __future__ import annotations

import pytest

from evaluation.peers.plain_lifetimes import plain_lifetimes
from instances.synthetic import training_graph
from planners import Problem
from planners.referee.naive import find_violation
from planners.registry import UnsupportedProblemError

#   offset
#    48 |      1 1     alignment 16, so that 20 bytes take 32
#    32 |0 0 0
#     0 |0 0 0 2       tensor 3 has no bytes
#       -1 0 1 2
TOUCHING = Problem(
    [48, 20, 30, 0], [-1, 1, 2, 0], [2, 3, 3, 1], alignment=[16] * 4, name="touching"
)


def test_sizes_are_units_and_steps_begin_at_zero() -> None:
    lifetimes = plain_lifetimes(TOUCHING, "a package")
    assert (lifetimes.unit, lifetimes.tensors) == (16, [0, 1, 2])
    assert lifetimes.size == [3, 2, 2]
    assert (lifetimes.first, lifetimes.last) == ([0, 2, 3], [2, 3, 3])


def test_offsets_come_back_in_bytes() -> None:
    plan = plain_lifetimes(TOUCHING, "a package").plan([0, 3 * 256, 0], 256)
    assert plan.offsets.tolist() == [0, 48, 0, 0]
    assert plan.peak == 68
    assert find_violation(TOUCHING, plan) is None


def test_half_a_block_hides_no_overlap() -> None:
    overlapping = Problem([16, 16], [0, 0], [1, 1], alignment=[16, 16])
    lifetimes = plain_lifetimes(overlapping, "a package")
    # Rounded down these would lie side by side, rounded up they meet what they met.
    plan = lifetimes.plan([0, 8], 16)
    assert plan.offsets.tolist() == [0, 16]


def test_without_alignment_the_unit_is_what_divides_all_sizes() -> None:
    assert plain_lifetimes(Problem([12, 30], [0, 0], [1, 1]), "a package").unit == 6
    assert plain_lifetimes(Problem([0, 0], [0, 0], [1, 1]), "a package").size == []
    assert plain_lifetimes(Problem([], [], []), "a package").tensors == []


def test_a_seed_is_another_order_of_the_same_tensors() -> None:
    problem = Problem(range(1, 30), [0] * 29, [1] * 29)
    one, same, other = (plain_lifetimes(problem, "a package", seed) for seed in (1, 1, 2))
    assert one == same
    assert one.tensors != other.tensors
    assert sorted(one.tensors) == list(range(29))
    assert one.size == [tensor + 1 for tensor in one.tensors]


@pytest.mark.parametrize(
    ("problem", "feature"),
    [
        (Problem([1, 2], [0, 0], [9, 9], gaps=[(0, 3, 5)]), "gaps"),
        (Problem([1, 2], [0, 0], [9, 9], alignment=[1, 8]), "several alignments"),
        (Problem([1, 2], [0, 0], [9, 9], contiguous=[(0, 1)]), "chains"),
        (Problem([1, 2], [0, 0], [9, 9], pinned={0: 4}), "pinned"),
        (Problem([1, 2], unsafe_pairs=[(0, 1)]), "decides safety"),
        (training_graph(20, streams=3), "decides safety"),
    ],
)
def test_refuses_features_that_a_package_cannot_express(problem: Problem, feature: str) -> None:
    with pytest.raises(UnsupportedProblemError, match=f"a package .*{feature}|{feature}"):
        plain_lifetimes(problem, "a package")
