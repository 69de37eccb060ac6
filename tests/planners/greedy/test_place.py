"""Placement beyond the paper's model: alignment, pins, gaps, tensors without bytes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import (
    Budget,
    GaplessError,
    Plan,
    Problem,
    Safety,
    UnsupportedProblemError,
    check,
    place,
    place_in_objects,
)
from planners.greedy.place import CHAIN_RULES, FITS, place_blocks, sort_keys, stack_rest
from planners.greedy.sort_keys import ORDERS, block_order
from planners.referee.naive import find_violation
from planners.testing.random_problems import SOLVABLE, random_problem
from tests import definitions

pytestmark = pytest.mark.core

FITS_AND_RULES = [(fit, rule) for fit in FITS for rule in CHAIN_RULES]


def same_by_pairs(problem: Problem) -> Problem:
    """Return the same problem with its unsafe pairs written out, and so placed by other code."""
    return Problem(
        problem.size,
        unsafe_pairs=sorted(definitions.unsafe(problem)),
        alignment=problem.alignment,
        contiguous=problem.contiguous,
        pinned={t: int(at) for t, at in enumerate(problem.pinned) if at >= 0},
    )


def assert_lowest(problem: Problem, plan: Plan, order: str) -> None:
    """Check that no block could lie lower, given those that were placed before it."""
    unsafe = definitions.unsafe(problem)
    blocks = problem.blocks
    sequence = block_order(blocks, sort_keys(problem, order)).tolist()
    sequence.sort(key=lambda block: blocks.pinned[block] < 0)
    offset, size = plan.offsets.tolist(), problem.size.tolist()
    placed: list[int] = []
    for block in sequence:
        entries = slice(blocks.indptr[block], blocks.indptr[block + 1])
        members = blocks.members[entries].tolist()
        before = blocks.before[entries].tolist()
        others = list(placed)

        def is_free(tensor: int, at: int, others: list[int] = others) -> bool:
            return at % problem.alignment[tensor] == 0 and not any(
                (min(tensor, other), max(tensor, other)) in unsafe
                and min(size[tensor], size[other]) > 0
                and at < offset[other] + size[other]
                and offset[other] < at + size[tensor]
                for other in others
            )

        def fits(head: int) -> bool:
            pieces = zip(members, before, strict=True)  # noqa: B023
            return all(is_free(tensor, head + skipped) for tensor, skipped in pieces)

        head = offset[members[0]]
        assert fits(head)
        if blocks.pinned[block] < 0:
            lower = [at for at in range(head) if fits(at)]
            assert not lower, f"block {members} lies at {head}, and {lower} is free"
        placed += members


@pytest.mark.parametrize("safety", Safety)
@given(rng=st.randoms(use_true_random=False))
def test_every_plan_is_valid(rng: Random, safety: Safety) -> None:
    problem = random_problem(rng, safety, features=SOLVABLE)
    for order in ORDERS:
        for fit, rule in FITS_AND_RULES:
            plan = place(problem, order, fit, chain_rule=rule)
            assert find_violation(problem, plan) is None
            if (problem.pinned < 0).all():
                plan = place_in_objects(problem, order, fit, chain_rule=rule)
                assert find_violation(problem, plan) is None


@pytest.mark.parametrize("safety", Safety)
def test_first_fit_leaves_no_lower_offset(safety: Safety) -> None:
    for seed in range(150):
        problem = random_problem(Random(seed), safety, features=SOLVABLE)
        for order in ORDERS:
            assert_lowest(problem, place(problem, order, "first"), order)


@pytest.mark.parametrize("safety", [Safety.LIFETIMES, Safety.GRAPH])
def test_lifetimes_graphs_and_pairs_are_placed_alike(safety: Safety) -> None:
    # Lifetimes go through the tree of sections, pairs through rows of bits; the order is given, as
    # explicit pairs know no steps.
    for seed in range(200):
        rng = Random(seed)
        problem = random_problem(rng, safety, (0, 14), features=SOLVABLE)
        keys = [rng.randint(0, 9) for _ in range(problem.tensor_count)]
        pairs = same_by_pairs(problem)
        for fit, rule in FITS_AND_RULES:
            for engine in (place, place_in_objects):
                if engine is place_in_objects and (problem.pinned >= 0).any():
                    continue
                found = engine(problem, keys, fit, chain_rule=rule).offsets.tolist()
                expected = engine(pairs, keys, fit, chain_rule=rule).offsets.tolist()
                assert found == expected, f"seed {seed}, {engine.__name__}, {fit}, {rule}"


def test_an_aligned_tensor_goes_to_the_next_object_with_room() -> None:
    #   object 0 |A A A|   object 1 |B B B B B B B B B|
    #             0   3              3       8       12    C: 2 bytes, a multiple of 8
    for problem in (
        Problem([3, 9, 2], [0, 0, 5], [2, 2, 6], alignment=[1, 1, 8], pinned={}),
        Problem([3, 9, 2], unsafe_pairs=[(0, 1)], alignment=[1, 1, 8]),
    ):
        assert place_in_objects(problem, [0, 1, 2]).offsets.tolist() == [0, 3, 0]
    for problem in (
        Problem([3, 9, 2], [0, 0, 1], [2, 1, 6], alignment=[1, 1, 8]),
        Problem([3, 9, 2], unsafe_pairs=[(0, 1), (0, 2)], alignment=[1, 1, 8]),
    ):
        assert place_in_objects(problem, [0, 1, 2]).offsets.tolist() == [0, 3, 8]


def test_an_object_too_short_for_an_alignment_hides_no_other() -> None:
    #   object 0 |A A A A A|  object 1 |B B B B B|       C lies on the first byte of A and needs a
    #             0       5             5       10       multiple of 8: object 1 has one
    for problem in (
        Problem([1, 4, 5, 2], [0, 5, 0, 0], [2, 6, 1, 2], alignment=[1, 1, 1, 8]),
        Problem([1, 4, 5, 2], unsafe_pairs=[(0, 2), (0, 3), (2, 3)], alignment=[1, 1, 1, 8]),
    ):
        for order in ([0, 1, 2, 3], [1, 0, 2, 3]):
            plan = place_in_objects(problem, order)
            assert find_violation(problem, plan) is None
    for problem in (
        Problem([5, 1, 5, 2], [5, 0, 5, 0], [6, 2, 6, 2], alignment=[1, 1, 1, 8]),
        Problem([5, 1, 5, 2], unsafe_pairs=[(0, 2), (1, 3)], alignment=[1, 1, 1, 8]),
    ):
        assert place_in_objects(problem, [0, 1, 2, 3]).offsets.tolist() == [0, 0, 5, 8]


def test_sizes_near_the_limit_do_not_overflow() -> None:
    half = 1 << 60
    problem = Problem([half - 8, half - 8], [0, 0], [2, 2], alignment=[1, 8])
    for engine in (place, place_in_objects):
        for fit in FITS:
            plan = engine(problem, "size", fit)
            assert plan.peak == 2 * half - 16
            assert find_violation(problem, plan) is None


def test_many_objects_refuses_pins_with_a_reason() -> None:
    problem = Problem([1, 1], [0, 0], [1, 1], pinned={1: 5})
    with pytest.raises(UnsupportedProblemError, match="pinned tensors"):
        place_in_objects(problem)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": "sise"}, "no order is called 'sise'; did you mean 'size'"),
        ({"fit": "frist"}, "no fit is called 'frist'; did you mean 'first'"),
        ({"chain_rule": "paperr"}, "no chain rule is called 'paperr'; did you mean 'paper'"),
        ({"order": [1]}, "one number a tensor is needed, found int64 of shape (1,) for 2 tensors"),
        ({"order": ["a", "b"]}, "one number a tensor is needed"),
        ({"order": [0.5, float("nan")]}, "order: key 1 is not a number"),
        ({"order": lambda problem: problem.size[:1]}, "for 2 tensors"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    problem = Problem([1, 2], [0, 0], [1, 1])
    for engine in (place, place_in_objects):
        with pytest.raises(GaplessError) as caught:
            engine(problem, **arguments)
        assert message in str(caught.value)


def test_keys_may_be_a_function_floats_or_whole_numbers_without_a_sign() -> None:
    problem = Problem([1, 2], [0, 0], [1, 1])
    for order in (
        lambda p: -p.size,
        [1.5, -np.inf],
        np.array([7, 3], dtype=np.uint8),
        np.array([True, False]),
    ):
        assert place(problem, order).offsets.tolist() == [2, 0]


def test_an_expired_budget_is_a_time_out() -> None:
    tensors = 4096
    problem = Problem([1] * tensors, [0] * tensors, [1] * tensors)
    budget = Budget(time_limit_seconds=0).started()
    for engine in (place, place_in_objects):
        with pytest.raises(TimeoutError):
            engine(problem, budget=budget)


def test_any_part_of_a_plan_can_be_completed() -> None:
    for seed in range(200):
        rng = Random(f"stack {seed}")
        problem = random_problem(rng, rng.choice(list(Safety)), (1, 12), features=SOLVABLE)
        blocks = np.array(rng.sample(range(problem.blocks.count), problem.blocks.count))
        rest = blocks[rng.randint(0, len(blocks)) :]
        whole = place(problem, "size")
        plan = stack_rest(problem, whole.offsets, rest)
        assert plan is not None
        check(problem, plan)
        if not len(rest):
            assert plan.offsets.tolist() == whole.offsets.tolist()


def test_a_placement_that_time_ends_is_completed() -> None:
    tensors = 3_000
    problem = Problem([1] * tensors, [0] * tensors, [1] * tensors)
    order = np.arange(tensors)
    over = Budget(time_limit_seconds=0).started()
    attempt = place_blocks(problem, order, budget=over, complete=True)
    assert attempt.out_of_time
    assert attempt.placed < tensors
    assert attempt.plan is not None
    check(problem, attempt.plan)
