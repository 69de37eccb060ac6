"""Programs of several kinds of step: each is planned, in an arena as large as what lives."""

from __future__ import annotations

from random import Random

import pytest

from tests.gpu_runtime.allocator.synthetic_training import (
    SETTLED_STEPS,
    Block,
    Life,
    Request,
    Training,
    random_program,
    rounded,
    served,
)
from tests.gpu_runtime.allocator.training_programs import most_live, training_step

pytestmark = pytest.mark.core


def names_of_kinds(training: Training) -> list[str]:
    return [kind.name for kind in training.memory.report().kinds]


def test_buckets_in_turn() -> None:
    # They share an arena.
    lengths = (256, 512, 320, 640)
    training = Training("auto")
    for _ in range(3):
        for length in lengths:
            training.step(training_step(length))
    assert training.memory.report().arena_bytes == most_live(training_step(640))
    for length in lengths * 2:
        assert served(training, training_step(length))
    assert len(training.memory.report().kinds) == 4


def test_a_named_kind_is_known_from_its_beginning() -> None:
    # The same requests, but what is made in evaluation stays until its end.
    one = [Request(5000, 0, Life.WITHIN, k + 1) for k in range(8)]
    other = [Request(5000, 0, Life.WITHIN, 8) for _ in range(8)]
    training = Training("auto")
    for _ in range(SETTLED_STEPS):
        training.step(one)
        training.step(other, kind="eval")
    assert names_of_kinds(training) == ["step", "eval"]
    for _ in range(2):
        assert served(training, one)
        assert len({block.address for block in training.made}) == 1
        assert served(training, other, "eval")
    assert training.memory.report().arena_bytes == 8 * rounded(5000)


class Accumulation:
    """Gradients that are summed over four steps; the optimizer runs in the fourth."""

    SIZES = (40_000, 8_000, 600, 90_000)

    def __init__(self, training: Training) -> None:
        self.training = training
        self.gradients: list[Block] = []
        self.state: list[Block] = []

    def step(self, number: int) -> None:
        training = self.training
        with training.memory.step():
            activations = [training.make(Request(70_000, 0, Life.WITHIN)) for _ in range(6)]
            for index, size in enumerate(self.SIZES):
                gradient = training.make(Request(size, 0, Life.WITHIN))
                training.free(activations.pop())
                if len(self.gradients) > index:
                    training.free(gradient)
                else:
                    self.gradients.append(gradient)
            for block in activations:
                training.free(block)
            if number % 4 == 3:
                if not self.state:
                    self.state = [training.make(Request(size, 0, Life.KEPT)) for size in self.SIZES]
                for block in self.gradients:
                    training.free(block)
                self.gradients = []


def test_steps_that_sum_gradients_are_four_kinds_in_turn() -> None:
    training = Training("auto")
    program = Accumulation(training)
    for number in range(24):
        program.step(number)
    training.memory.reset_peaks()
    for number in range(8):
        program.step(number)
    report = training.memory.report()
    assert report.planned_steps == 8
    assert report.mismatch_counts == {}
    training.allocator.check()


def test_streams_share_bytes_and_wait_for_nobody() -> None:
    program = training_step(256, streams=True)
    training = Training("auto")
    training.run(program, SETTLED_STEPS)
    for _ in range(3):
        assert served(training, program)
    report = training.memory.report()
    assert most_live(program) <= report.arena_bytes <= 1.01 * most_live(program)
    training.free_all()


@pytest.mark.parametrize("seed", range(20))
def test_a_program_that_changes_is_planned_anew(seed: int) -> None:
    rng = Random(seed)
    one, other = (random_program(rng, rng.randint(20, 80), rng.randint(1, 3)) for _ in range(2))
    training = Training()
    for program in (one, other, one):
        training.run(program, SETTLED_STEPS)
        for _ in range(3):
            assert served(training, program)
        training.allocator.check()
    training.free_all()


def test_a_program_that_never_repeats_is_never_planned() -> None:
    training, rng = Training(), Random(9)
    for number in range(200):
        training.step(random_program(rng, 30 + number, 1))
    assert training.memory.report().status == "profiling"
    training.let_go()
    training.free_all()


def test_more_kinds_than_are_kept() -> None:
    programs = [
        [Request(1000 + 700 * j, 0, Life.WITHIN, count) for j in range(count)]
        for count in range(5, 25)
    ]
    training = Training()
    for program in programs:
        training.run(program, 2)
    kinds = training.memory.report().kinds
    assert [kind.requests for kind in kinds] == list(range(9, 25))
    # The first one was forgotten, and is learnt again.
    training.run(programs[0], 2)
    assert served(training, programs[0])
    assert len(training.memory.report().kinds) == 16
    training.free_all()
