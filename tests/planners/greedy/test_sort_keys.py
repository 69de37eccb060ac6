"""The sort keys of the greedy orders against their definitions."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from planners import Problem, Safety
from planners.greedy.sort_keys import block_order, by_breadth, by_size, by_source, by_unsafe
from planners.testing.random_problems import SOLVABLE, random_problem
from tests import definitions

pytestmark = pytest.mark.core


def drawn(safety: Safety, count: int = 150) -> list[Problem]:
    return [
        random_problem(Random(seed), safety, (0, 12), features=SOLVABLE) for seed in range(count)
    ]


@pytest.mark.parametrize("safety", Safety)
def test_size_counts_a_chain_with_all_its_bytes(safety: Safety) -> None:
    for problem in drawn(safety):
        chain_of = {tensor: chain for chain in problem.contiguous for tensor in chain}
        expected = [
            -sum(int(problem.size[member]) for member in chain_of.get(tensor, (tensor,)))
            for tensor in range(problem.tensor_count)
        ]
        assert by_size(problem).tolist() == expected


@pytest.mark.parametrize("safety", [Safety.LIFETIMES, Safety.GRAPH])
def test_breadth_is_the_bytes_alive_at_the_source(safety: Safety) -> None:
    for problem in drawn(safety):
        needed = [definitions.steps_needed(problem, t) for t in range(problem.tensor_count)]
        expected = [
            -sum(int(problem.size[t]) for t, steps in enumerate(needed) if step in steps)
            for step in problem.start.tolist()
        ]
        assert by_breadth(problem).tolist() == expected


def test_breadth_of_explicit_pairs_says_nothing() -> None:
    assert by_breadth(Problem([1, 2], unsafe_pairs=[(0, 1)])).tolist() == [0, 0]


def test_source_is_the_first_step() -> None:
    assert by_source(Problem([1, 1], [4, 2], [5, 9])).tolist() == [4, 2]


@pytest.mark.parametrize("safety", Safety)
def test_unsafe_counts_the_pairs(safety: Safety) -> None:
    for problem in drawn(safety):
        pairs = definitions.unsafe(problem)
        expected = [-sum(t in pair for pair in pairs) for t in range(problem.tensor_count)]
        assert by_unsafe(problem).tolist() == expected


@pytest.mark.parametrize("safety", Safety)
def test_the_core_knows_every_unsafe_pair(safety: Safety) -> None:
    for problem in drawn(safety, 60):
        tensors = range(problem.tensor_count)
        found = {(a, b) for b in tensors for a in range(b) if problem.core.unsafe(b, a)}
        assert found == definitions.unsafe(problem)


def test_blocks_follow_their_most_urgent_tensor_and_ties_the_index() -> None:
    problem = Problem([1] * 6, [0] * 6, [1] * 6, contiguous=[(4, 1)])
    assert problem.blocks.members.tolist() == [0, 4, 1, 2, 3, 5]
    assert block_order(problem.blocks, np.array([5, 9, 3, 3, 3, 0])).tolist() == [4, 1, 2, 3, 0]
    assert block_order(problem.blocks, np.zeros(6)).tolist() == [0, 1, 2, 3, 4]
    assert block_order(Problem([], [], []).blocks, np.empty(0)).tolist() == []
