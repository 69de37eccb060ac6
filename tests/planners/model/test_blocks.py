"""Blocks: chains as one piece, and the members' conditions as conditions on the head."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import InstanceError, Problem, Safety
from planners.testing.random_problems import SOLVABLE, random_problem


def problem_of(size: list[int], **conditions: Any) -> Problem:
    return Problem(size, unsafe_pairs=[], **conditions)


def test_blocks_are_ordered_by_their_lowest_tensor() -> None:
    #  chains (4, 1, 3) and (2, 5); 0 and 6 are alone
    blocks = problem_of([1, 2, 3, 4, 5, 6, 7], contiguous=[(4, 1, 3), (2, 5)]).blocks
    assert blocks.count == 4
    assert blocks.indptr.tolist() == [0, 1, 4, 6, 7]
    assert blocks.members.tolist() == [0, 4, 1, 3, 2, 5, 6]
    assert blocks.before.tolist() == [0, 0, 5, 7, 0, 3, 0]
    assert blocks.size.tolist() == [1, 11, 9, 7]
    assert blocks.block_of.tolist() == [0, 1, 2, 1, 1, 2, 3]
    assert blocks.modulus.tolist() == [1, 1, 1, 1]
    assert blocks.residue.tolist() == [0, 0, 0, 0]
    assert blocks.pinned.tolist() == [-1, -1, -1, -1]


@given(st.randoms(use_true_random=False))
def test_residue_and_pin_stand_for_the_conditions_of_all_members(rng: Random) -> None:
    problem = random_problem(rng, Safety.PAIRS, features=SOLVABLE)
    blocks = problem.blocks
    for block in range(blocks.count):
        entries = slice(blocks.indptr[block], blocks.indptr[block + 1])
        members, before = blocks.members[entries].tolist(), blocks.before[entries].tolist()
        assert before == [sum(problem.size[members[:m]].tolist()) for m in range(len(members))]
        assert blocks.size[block] == problem.size[members].sum()
        assert len(members) == 1 or tuple(members) in problem.contiguous
        assert (blocks.block_of[members] == block).all()
        for head in range(64):
            offsets = [head + skipped for skipped in before]
            aligned = all(
                at % problem.alignment[t] == 0 for t, at in zip(members, offsets, strict=True)
            )
            assert aligned == (head % blocks.modulus[block] == blocks.residue[block])
        pins = {
            int(problem.pinned[t]) - skipped
            for t, skipped in zip(members, before, strict=True)
            if problem.pinned[t] >= 0
        }
        assert blocks.pinned[block] == (pins.pop() if pins else -1)
        assert not pins


def solvable_alignment(size: list[int], alignment: list[int]) -> bool:
    ends = [sum(size[: m + 1]) for m in range(len(size))]
    return any(
        all((head + end - s) % a == 0 for s, a, end in zip(size, alignment, ends, strict=True))
        for head in range(max(alignment))
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 2, 4, 8])), min_size=2,
                max_size=5))  # fmt: skip
def test_a_chain_is_refused_where_no_head_aligns_all(members: list[tuple[int, int]]) -> None:
    size, alignment = [m[0] for m in members], [m[1] for m in members]
    chain = [tuple(range(len(members)))]
    if solvable_alignment(size, alignment):
        problem_of(size, alignment=alignment, contiguous=chain)
    else:
        with pytest.raises(InstanceError, match=r"field alignment, tensor \d: no offset of its"):
            problem_of(size, alignment=alignment, contiguous=chain)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"alignment": [4, 4, 1]}, "field alignment, tensor 1: no offset of its chain aligns every "
         "member, found alignment 4 at 3 bytes into the chain; pad the sizes in front of it or "
         "lower the alignment"),
        ({"pinned": {1: 2}}, "field pinned, tensor 1: 3 bytes of its chain come first, found the "
         "offset 2; at least 3 is needed"),
        ({"pinned": {0: 4, 2: 9}}, "field pinned, tensor 2: its chain is pinned elsewhere already, "
         "found 9; 12 agrees with the other members"),
        ({"pinned": {2: 9}, "alignment": [4, 1, 1]}, "field pinned, tensor 2: the offset must be "
         "aligned, with its whole chain, to 4, found 9"),
    ],
)  # fmt: skip
def test_conditions_that_no_chain_satisfies_are_refused(
    conditions: dict[str, Any], message: str
) -> None:
    with pytest.raises(InstanceError) as caught:
        problem_of([3, 5, 7], contiguous=[(0, 1, 2)], **conditions)
    assert str(caught.value) == message
