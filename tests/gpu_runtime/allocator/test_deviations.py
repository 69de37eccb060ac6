"""Steps that run unlike the planned one: nothing shares a byte, and the plan serves the next."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.gpu_runtime.allocator.deviations import DEVIATIONS, random_deviation
from tests.gpu_runtime.allocator.synthetic_training import (
    SETTLED_STEPS,
    Life,
    Program,
    Request,
    Training,
    planned_training,
    random_program,
    served,
)
from tests.slow import in_parts, one_by_one

pytestmark = pytest.mark.core

Deviation = Callable[[Random, Program], Program]


def served_soon(training: Training, program: Program) -> bool:
    """Whether a program is served again, where its plan may have to be made anew."""
    training.let_go()
    return any(served(training, program) for _ in range(SETTLED_STEPS))


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda deviation: deviation.__name__)
@pytest.mark.parametrize("streams", [1, 3])
@in_parts("seeds", range(12), first=3)
def test_one_deviation_and_back(deviation: Deviation, streams: int, seeds: range) -> None:
    for seed in seeds:
        rng = Random(f"{deviation.__name__} {streams} {seed}")
        program = random_program(rng, rng.randint(1, 80), streams)
        training = planned_training(program)
        for _ in range(3):
            training.step(deviation(rng, program))
            training.let_go()
            training.step(program)
            assert served_soon(training, program)
        training.check_account()
        training.free_all()


@one_by_one("seed", range(40), first=10)
def test_many_deviations_in_a_row(seed: int) -> None:
    rng = Random(seed)
    # With few sizes, requests are hard to tell apart.
    sizes = rng.choice((3, 40))
    program = random_program(rng, rng.randint(2, 150), rng.randint(1, 3), kept=0.02, sizes=sizes)
    training = planned_training(program)
    for _ in range(15):
        unlike = random_deviation(rng, program) if rng.random() < 0.8 else program
        breaks_at = rng.randrange(len(unlike) + 1) if rng.random() < 0.2 else None
        training.step(unlike, breaks_at)
        if rng.random() < 0.2:
            training.let_go()
    training.check_account()
    training.free_all()


@pytest.mark.parametrize("breaks_at", [0, 1, 20, 39, 40])
def test_an_error_in_the_middle_of_a_step(breaks_at: int) -> None:
    program = random_program(Random(breaks_at), 40, 2)
    training = planned_training(program)
    for _ in range(3):
        training.step(program, breaks_at)
        training.let_go()
        training.step(program)
        assert served_soon(training, program)
    training.free_all()


def distinct(requests: int) -> Program:
    """Requests of sizes that occur once, each freed before the one after the next."""
    return [Request(700 * (k + 1), 0, Life.WITHIN, min(k + 2, requests)) for k in range(requests)]


def test_a_plan_that_is_left_three_times_goes() -> None:
    program = distinct(30)
    training = planned_training(program)
    for number in range(3):
        assert training.planned
        training.step([*program[:10], Request(99_999 + number, 0, Life.WITHIN, 11)])
    report = training.memory.report()
    assert (report.status, report.reason) == ("unplanned", "the steps left the plan")
    # The kind has to repeat twice as often as for the first plan.
    training.run(program, 3)
    assert not training.planned
    training.run(program, 1)
    assert training.planned
    assert served(training, program)


def test_a_block_freed_early_makes_room() -> None:
    program = random_program(Random(3), 80, 3)
    training = planned_training(program)
    training.step([Request(r.size, r.stream, Life.WITHIN, k + 1) for k, r in enumerate(program)])
    training.let_go()
    assert training.memory.report().mismatch_counts == {}


@pytest.mark.parametrize("planner", ["greedy-size-best", "many-objects-size-best"])
def test_blocks_held_for_good_are_in_nobodys_way(planner: str) -> None:
    program = random_program(Random(8), 50, 2)
    training = planned_training(program, planner)
    training.step([Request(r.size, r.stream, Life.KEPT) for r in program])
    assert len(training.kept) == 50
    training.run(program, 3 * SETTLED_STEPS)
    # The plan was left too often. The next one has an arena of its own.
    assert served(training, program)
    training.check_account()
    training.free_all()
