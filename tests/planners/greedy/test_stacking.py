"""What there is no time to place is stacked on top, and that is a plan."""

from __future__ import annotations

from random import Random

import numpy as np

from planners import Budget, Problem, Safety, check, place
from planners.greedy.place import place_blocks, stack_rest
from tests.random_problems import SOLVABLE, random_problem


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
