"""Variants of a problem: each another problem, made again by its seed, and what fits still fits."""

from __future__ import annotations

import re

import numpy as np
import pytest

from instances.synthetic import tight_capacity
from instances.synthetic.variations import VARIATIONS, is_drawn, vary
from planners import Problem, Status, run
from planners.errors import InstanceError


def columns(problem: Problem) -> tuple[list[int], list[int], list[int]]:
    return problem.size.tolist(), problem.start.tolist(), problem.end.tolist()


@pytest.mark.parametrize("variation", VARIATIONS)
def test_variants_of_an_instance_that_fits_fit(variation: str) -> None:
    for seed in range(8):
        problem = tight_capacity(12, utilisation=0.9, steps=500, units=256, seed=seed)
        variant = vary(problem, variation, seed)
        assert run(variant, "branch-and-bound").status in (Status.OPTIMAL, Status.FEASIBLE)
        assert columns(vary(problem, variation, seed)) == columns(variant) != columns(problem)


@pytest.mark.parametrize("variation", VARIATIONS)
def test_drawn_variants_change_with_the_seed(variation: str) -> None:
    problem = tight_capacity(12, utilisation=0.9, steps=500, units=256)
    variants = [columns(vary(problem, variation, seed)) for seed in range(8)]
    assert any(variant != variants[0] for variant in variants) is is_drawn(variation)


def test_each_variation_is_what_it_is_called() -> None:
    #  2 |bb|
    #  1 |aaaa|
    problem = Problem([100, 200], [0, 0], [40, 20], capacity=300, name="pair")
    assert columns(vary(problem, "mirrored", 0)) == ([100, 200], [0, 20], [40, 40])
    assert sorted(vary(problem, "shuffled", 0).size) == [100, 200]
    scaled = vary(problem, "scaled", 0)
    assert (scaled.capacity or 0) / 300 == scaled.size[0] / 100 == scaled.size[1] / 200
    assert scaled.size[0] in (300, 100_000)
    assert np.gcd.reduce(vary(Problem([96, 640], [0, 0], [1, 1]), "smaller", 0).size) % 32 == 0
    shorter = vary(Problem([1] * 50, [0] * 50, [100] * 50), "shorter", 0)
    assert (shorter.start >= 0).all()
    assert (shorter.end <= 100).all()
    assert 94 <= (shorter.end - shorter.start).min() < 100
    twice = vary(problem, "twice", 0)
    assert sorted(twice.size) == [100, 100, 200, 200]
    assert (twice.start.max(), twice.end.max()) == (60, 80)
    assert twice.name == "pair"


def test_a_variant_of_a_problem_without_tensors_is_one() -> None:
    for variation in VARIATIONS:
        assert vary(Problem([], [], [], capacity=3), variation, 0).tensor_count == 0


@pytest.mark.parametrize(
    ("problem", "found"),
    [
        (Problem([1, 1], unsafe_pairs=[(0, 1)]), "safety by"),
        (Problem([2], [0], [1], alignment=[2]), "an alignment above 1"),
        (Problem([1, 1], [0, 0], [1, 1], contiguous=[(0, 1)]), "contiguous chains"),
        (Problem([1], [0], [1], pinned={0: 0}), "given offsets"),
        (Problem([1], [0], [9], gaps=[(0, 2, 3)]), "gaps in lifetimes"),
    ],
)
def test_refuses_problems_with_more_than_lifetimes(problem: Problem, found: str) -> None:
    with pytest.raises(
        InstanceError, match=rf"lifetimes alone are needed, found {re.escape(found)}"
    ):
        vary(problem, "mirrored", 0)
