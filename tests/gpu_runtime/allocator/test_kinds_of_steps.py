"""Programs of several kinds of step: each is planned, in an arena as large as what lives."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from tests.gpu_runtime.allocator.synthetic_training import (
    PAGE_BYTES,
    SETTLED_STEPS,
    Block,
    Life,
    Program,
    Request,
    Training,
    random_program,
    rounded,
    served,
)
from tests.gpu_runtime.allocator.training_programs import evaluation, most_live, training_step

pytestmark = pytest.mark.core


def names_of_kinds(training: Training) -> list[str]:
    return [kind.name for kind in training.memory.report().kinds]


def run_between(training: Training, program: Program) -> None:
    """Run outside of steps."""
    blocks: list[Block] = []
    for index, request in enumerate(program):
        for block in [block for block in blocks if block.request.end <= index]:
            blocks.remove(block)
            training.free(block)
        blocks.append(training.make(request))
    for block in blocks:
        training.free(block)


def test_two_kinds_of_step_share_an_arena() -> None:
    one, other = training_step(256), evaluation(900)
    training = Training("auto")
    for _ in range(SETTLED_STEPS):
        training.step(one)
        training.step(other)
    assert training.memory.report().arena_bytes == max(most_live(one), most_live(other))
    for program in (one, other, other, one):
        assert served(training, program)
    assert names_of_kinds(training) == ["step", "step"]
    training.free_all()


def test_a_step_shorter_than_planned_is_served() -> None:
    training = Training("auto")
    for length in (300, 300, 320, 320, 300, 320):
        training.step(training_step(length))
    for length in (319, 310, 300, 290, 200, 100):
        assert served(training, training_step(length)), length
    assert training.memory.report().arena_bytes == most_live(training_step(320))


@pytest.mark.parametrize("seed", range(5))
def test_lengths_at_random_need_what_the_longest_needs(seed: int) -> None:
    rng = Random(seed)
    lengths = [rng.randint(128, 768) for _ in range(60)]
    training = Training("auto")
    for length in lengths:
        training.step(training_step(length))
    # One more of each variant, by which every length was seen when the plan was made.
    longest = [
        max(length for length in lengths if (length > 384) == is_long) for is_long in (False, True)
    ]
    for length in longest * 2:
        training.step(training_step(length))
    report = training.memory.report()
    assert len(report.kinds) == 2
    assert report.arena_bytes == max(most_live(training_step(length)) for length in longest)
    training.memory.reset_peaks()
    for length in rng.choices(lengths, k=20):
        training.step(training_step(length))
    # Between the variants' lengths the first requests may look like the other one's.
    report = training.memory.report()
    assert report.planned_requests >= 0.9 * sum(kind.all_requests for kind in report.kinds)
    training.free_all()


def test_a_length_never_seen_makes_the_plan_grow() -> None:
    training = Training("auto")
    for length in (300, 350, 300, 350, 320):
        training.step(training_step(length))
    assert not served(training, training_step(380))
    assert served(training, training_step(380))
    assert training.memory.report().arena_bytes == most_live(training_step(380))


def test_buckets_in_turn() -> None:
    lengths = (256, 512, 320, 640)
    training = Training("auto")
    for _ in range(4):
        for length in lengths:
            training.step(training_step(length))
    assert training.memory.report().arena_bytes == most_live(training_step(640))
    for length in lengths * 2:
        assert served(training, training_step(length))
    assert len(training.memory.report().kinds) == 2


def test_what_runs_between_steps_is_planned_into_the_same_arena() -> None:
    step, between = training_step(256), evaluation(1500)
    training = Training("auto")
    for number in range(15):
        training.step(step)
        if number % 3 == 2:
            run_between(training, between)
    assert sorted(names_of_kinds(training)) == ["between steps", "step"]
    training.allocator.give_back()
    training.memory.reset_peaks()
    for _ in range(2):
        assert served(training, step)
        run_between(training, between)
    report = training.memory.report()
    assert report.arena_bytes == max(most_live(step), most_live(between))
    assert report.reserved_bytes <= report.arena_bytes + (1 << 16)
    training.free_all()


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


def test_gradients_that_are_summed_over_steps_have_places() -> None:
    training = Training("auto")
    program = Accumulation(training)
    for number in range(16):
        program.step(number)
    training.memory.reset_peaks()
    for number in range(8):
        program.step(number)
    report = training.memory.report()
    assert report.fallback_requests == report.missing_requests == report.escaping_requests == 0
    # All activations and the first gradient, beside the gradients of before and the state.
    sizes = [rounded(size) for size in Accumulation.SIZES]
    live = 6 * rounded(70_000) + sizes[0] + 2 * sum(sizes)
    assert report.allocated_bytes == live
    # The state may lie outside of the arena, or in it and in the way of a tighter plan.
    assert live <= report.planned_bytes <= 1.02 * live
    # Memory that held gradients before the plan went back, down to the bound.
    training.memory.reset_peaks()
    assert training.memory.report().reserved_bytes <= live * 257 // 256 + 4 * PAGE_BYTES
    training.allocator.check()


def test_plans_for_steps_that_grow_and_grow_wait_for_each_other() -> None:
    training = Training("many-objects-size-best")
    for number in range(120):
        training.step(training_step(400 + 3 * number))
    assert 5 <= training.memory.report().plans <= 18
    training.free_all()


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
        training.check_account()
    training.free_all()


def test_a_step_that_ended_with_an_error_teaches_nothing() -> None:
    program = training_step(256)
    training = Training()
    for breaks_at in (5, 10, 5, 10, 5):
        training.step(program, breaks_at=breaks_at)
    assert training.memory.report().status == "profiling"
    training.run(program, SETTLED_STEPS)
    plans = training.memory.report().plans
    for _ in range(4):
        training.step(program, breaks_at=7)
        assert served(training, program)
    assert training.memory.report().plans == plans
    training.free_all()


def all_unlike(steps: int) -> Iterable[Program]:
    rng = Random(9)
    for number in range(steps):
        yield random_program(rng, 30 + number, 1)


def test_a_program_that_never_repeats_is_never_planned() -> None:
    training = Training()
    for program in all_unlike(200):
        training.step(program)
    assert training.memory.report().status == "profiling"
    # Those of the first steps, then of the 32nd, the 64th and the 128th.
    planner = training.memory._planner
    assert planner is not None
    assert planner.observer.logs_read == 16 + 3
    # What the last step left was freed since.
    assert len(training.allocator.take_log()) < 100
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
    # The first one was forgotten, and is learnt again, after the longest wait between two plans.
    training.run(programs[0], 64)
    assert served(training, programs[0])
    assert len(training.memory.report().kinds) == 16
    training.free_all()
