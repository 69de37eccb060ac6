"""Injections are what they say: unsafe pairs that share bytes, apart from each other."""

from __future__ import annotations

from itertools import permutations

import pytest

from gpu_runtime.verification.injection import inject, moved, unsafe_overlaps
from instances.synthetic import training_graph
from planners import Problem, place
from planners.errors import GaplessError, InstanceError
from planners.model.plan import Plan
from planners.referee.naive import find_violation
from planners.waits.waiting_streams import without_streams

PROBLEM = training_graph(200, streams=5, chains=3)


def test_each_tensor_lies_on_an_unsafe_partner_within_the_arena() -> None:
    plan = place(PROBLEM, "size", "first")
    for seed in range(10):
        injections = inject(PROBLEM, plan, 8, seed)
        offsets = moved(plan.offsets, injections)
        sharing = set(unsafe_overlaps(PROBLEM, offsets))
        touched = [tensor for it in injections for tensor in (it.tensor, it.partner)]
        assert len(set(touched)) == 16
        for it in injections:
            assert tuple(sorted((it.tensor, it.partner))) in sharing
            assert 0 <= it.offset <= plan.peak - PROBLEM.size[it.tensor]
            assert it.offset == offsets[it.tensor]
        for one, other in permutations(injections, 2):
            low = max(offsets[other.tensor], offsets[other.partner])
            end = offsets + PROBLEM.size
            high = min(end[other.tensor], end[other.partner])
            assert end[one.tensor] <= low or offsets[one.tensor] >= high
    assert find_violation(PROBLEM, plan) is None, "the plan itself stays as it was"


def test_half_lie_exactly_on_their_partner_and_the_others_share_a_word_or_more() -> None:
    problem = Problem(PROBLEM.size // 512 % 20 + 1, graph=PROBLEM.graph)
    plan, size = place(problem, "size", "first"), problem.size
    exactly = 0
    injections = [it for seed in range(40) for it in inject(problem, plan, 8, seed)]
    for it in injections:
        at = int(plan.offsets[it.partner])
        low, high = max(it.offset, at), min(it.offset + size[it.tensor], at + size[it.partner])
        assert high - low >= min(8, size[it.tensor], size[it.partner])
        exactly += it.offset == min(at, plan.peak - size[it.tensor])
    assert len(injections) == 320
    assert 120 < exactly < 200


def test_a_right_plan_has_no_unsafe_sharers_and_the_referee_agrees_on_wrong_ones() -> None:
    right = place(PROBLEM, "size", "first")
    wrong = place(without_streams(PROBLEM), "size", "first")
    assert unsafe_overlaps(PROBLEM, right.offsets) == []
    assert find_violation(PROBLEM, Plan.of(PROBLEM, wrong.offsets)) is not None
    assert unsafe_overlaps(PROBLEM, wrong.offsets) != []


def test_streams_are_ignored_and_nothing_else() -> None:
    pinned = Problem([4, 4, 8], graph=training_graph(3).graph, contiguous=[[0, 1]],
                     alignment=[4, 4, 8], pinned={2: 16})  # fmt: skip
    single = without_streams(pinned)
    assert single.start.tolist() == pinned.start.tolist()
    assert single.end.tolist() == pinned.end.tolist()
    assert single.contiguous == pinned.contiguous
    assert single.alignment.tolist() == pinned.alignment.tolist()
    assert single.pinned.tolist() == pinned.pinned.tolist()


def test_more_than_there_are() -> None:
    problem = Problem([4, 4, 4], [0, 0, 5], [1, 1, 6], name="two meet")
    plan = place(problem, "size", "first")
    with pytest.raises(GaplessError, match=r"two meet: 2 injections need .* found 1"):
        inject(problem, plan, 2, 0)
    with pytest.raises(InstanceError, match=r"two meet: a graph is needed .* found lifetimes"):
        without_streams(problem)
