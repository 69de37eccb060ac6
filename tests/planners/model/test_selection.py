"""``Problem.select``: what some of the tensors keep of the whole."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import Graph, InstanceError, Problem, Safety
from planners.model.columns import IntColumn
from planners.testing.random_problems import FEATURES
from tests.definitions import Pairs, unsafe
from tests.random_problems import problems

COLUMNS = ("size", "alignment", "pinned", "phase_start", "layer_end", "dynamic")
WHOLE: dict[str, Any] = {
    "size": [8, 9, 10, 11, 12], "start": [0, 0, 0, 0, 0], "end": [5, 5, 5, 5, 5],
    "alignment": [1, 2, 4, 1, 1], "contiguous": [(4, 3)], "pinned": {0: 64, 1: 64},
    "gaps": [(0, 1, 2), (1, 2, 3)], "reuse_prices": [(3, 1, 7), (0, 4, 2)],
    "apart": [(3, 1), (0, 4)], "exclusive": [(2, 1), (4, 3)], "together": [(0, 1, 2)],
    "capacity": 99, "phase_start": [0, 1, 2, 3, 4],
    "layer_end": [5, 6, 7, 8, 9], "dynamic": [True, False, True, False, False],
    "tensor_name": list("abcde"), "name": "moe", "origin": {"x": 1},
}  # fmt: skip


def chosen_from(rng: Random, problem: Problem) -> list[int]:
    """Return some tensors in any order, of a chain all or none."""
    blocks = problem.blocks
    chosen = [
        tensor
        for block in range(blocks.count)
        if rng.random() < 0.6
        for tensor in blocks.members[blocks.indptr[block] : blocks.indptr[block + 1]].tolist()
    ]
    rng.shuffle(chosen)
    return chosen


def restricted(pairs: Pairs, chosen: list[int]) -> Pairs:
    place = {tensor: index for index, tensor in enumerate(chosen)}
    inside = [(place[a], place[b]) for a, b in pairs if a in place and b in place]
    return {(min(pair), max(pair)) for pair in inside}


@given(problems((0, 10), features=FEATURES), st.randoms(use_true_random=False))
def test_pairs_are_unsafe_where_they_were(problem: Problem, rng: Random) -> None:
    chosen = chosen_from(rng, problem)
    part = problem.select(chosen)
    expected = restricted(unsafe(problem), chosen)
    assert part.safety is problem.safety
    assert unsafe(part) == expected
    sized = {(a, b) for a, b in expected if part.size[a] and part.size[b]}
    assert {tuple(pair) for pair in part.core.unsafe_pairs().tolist()} == sized


@given(problems((0, 10)), st.randoms(use_true_random=False))
def test_conditions_on_offsets_come_along(problem: Problem, rng: Random) -> None:
    chosen = chosen_from(rng, problem)
    part = problem.select(chosen)
    for field in ("size", "alignment", "pinned"):
        assert getattr(part, field).tolist() == getattr(problem, field)[chosen].tolist()
    chains = [tuple(chosen[member] for member in chain) for chain in part.contiguous]
    assert chains == [chain for chain in problem.contiguous if chain[0] in chosen]
    assert part.capacity == problem.capacity


def test_everything_a_tensor_has_comes_along() -> None:
    part = Problem(**WHOLE).select([4, 1, 3])
    for field in COLUMNS:
        column: IntColumn = getattr(Problem(**WHOLE), field)
        assert getattr(part, field).tolist() == column[[4, 1, 3]].tolist(), field
    assert part.contiguous == ((0, 2),)
    assert part.gaps.tolist() == [[1, 2, 3]]
    assert part.reuse_prices.tolist() == [[2, 1, 7]]
    assert (part.apart.tolist(), part.exclusive.tolist()) == ([[2, 1]], [[0, 2]])
    assert (part.together, Problem(**WHOLE).select([2, 0]).together) == ((), ((1, 0),))
    assert part.tensor_name == ("e", "b", "d")
    assert (part.capacity, part.name, dict(part.origin)) == (99, "moe", {"x": 1})
    assert (part.phase_end, part.layer_start) == (None, None)


def test_changes_replace_the_columns_of_a_selection() -> None:
    part = Problem(**WHOLE).select(
        [0, 3], pinned=np.array([-1, 40]), contiguous=(), capacity=None, dynamic=None, name="part"
    )
    assert part.pinned.tolist() == [-1, 40]
    assert (part.contiguous, part.capacity, part.dynamic, part.name) == ((), None, None, "part")
    later = Problem(**WHOLE).select([1, 2], end=[4, 9])
    assert (later.end.tolist(), later.gaps.tolist()) == ([4, 9], [[0, 2, 3]])
    with pytest.raises(InstanceError, match="field gaps, tensor 0: a gap lies within"):
        Problem(**WHOLE).select([1, 2], end=[2, 9])


def test_another_thing_may_decide_safety() -> None:
    whole = Problem(**WHOLE)
    pairs = whole.select([0, 1], unsafe_pairs=[])
    assert (pairs.safety, pairs.gaps.tolist(), unsafe(pairs)) == (Safety.PAIRS, [], set())
    graph = Graph(op=["a"], stream=[0], producer=[0, 0], consumers=[[], []])
    of_graph = pairs.select([0, 1], graph=graph)
    assert of_graph.graph is graph
    assert of_graph.select([1], start=[3], end=[4]).safety is Safety.LIFETIMES


def test_arcs_of_left_out_tensors_stay() -> None:
    # Across three streams, tensor 1 alone orders the end of tensor 0 before the birth of tensor 2.
    graph = Graph(
        op=list("abcd"), stream=[0, 1, 2, 2], producer=[0, 1, 2], consumers=[[1], [2, 1, 2], [3]]
    )
    part = Problem([1, 1, 1], graph=graph).select([0, 2])
    assert unsafe(part) == set()
    assert part.graph is not None
    assert part.graph.control.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([0, 5], "selection, entry 1: tensors are numbered 0 to 4, found 5"),
        ([-1], "selection, entry 0: tensors are numbered 0 to 4, found -1"),
        ([1, 0, 1], r"selection, entry 0: every tensor comes once, found tensor 1 \(b\) again"),
        ([0.5], "field tensors, entry 0: a whole number that fits int64 is needed, found 0.5"),
        ([4], r"all members of a chain or none .* found chain 0 without tensor 3 \(d\)"),
    ],
)
def test_a_selection_that_makes_no_problem_is_refused(tensors: list[int], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        Problem(**WHOLE).select(tensors)


def test_pins_may_be_a_column() -> None:
    column = np.array([7, 64, -1, -1, -1])
    assert Problem(**{**WHOLE, "together": [], "pinned": column}).pinned.tolist() == column.tolist()
    with pytest.raises(InstanceError, match="tensor 2: an offset is at least 0, found -2"):
        Problem(**{**WHOLE, "pinned": np.array([7, 64, -2, -1, -1])})
    with pytest.raises(InstanceError, match="field pinned: one entry a tensor is needed, found 1"):
        Problem(**{**WHOLE, "pinned": np.array([7])})
