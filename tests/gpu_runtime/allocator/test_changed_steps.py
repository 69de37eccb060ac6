"""A program that changes for good: the plan is dropped, and another is made of what it does now."""

from __future__ import annotations

from random import Random

import pytest

from gpu_runtime import PlannedMemory
from planners.errors import GaplessError
from tests.gpu_runtime.allocator.synthetic_training import (
    PAGE_BYTES,
    STREAMS,
    Life,
    Program,
    Request,
    Training,
    random_program,
    served,
)

pytestmark = pytest.mark.core

SEEDS = range(20)


def two_programs(seed: int) -> tuple[Program, Program]:
    """Programs that have no size in common, on up to three streams each."""
    rng = Random(seed)
    one = random_program(rng, rng.randint(20, 80), rng.randint(1, 3))
    other = random_program(rng, rng.randint(20, 80), rng.randint(1, 3))
    return one, [
        Request(request.size + (1 << 15), request.stream, request.life, request.end)
        for request in other
    ]


def planned_anew(training: Training, program: Program, most: int = 12) -> int:
    """Run a program until the plan serves it, and return how many steps that took."""
    for step in range(most):
        if training.planned and served(training, program):
            return step
        if not training.planned:
            training.step(program)
    raise AssertionError(f"no plan after {most} steps")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_program_that_changes_is_planned_anew(seed: int) -> None:
    one, other = two_programs(seed)
    training = Training(patience=3)
    for number, program in enumerate((one, other, one), 1):
        planned_anew(training, program, 20)
        report = training.memory.report()
        assert report.plans == number
        for _ in range(3):
            assert served(training, program)
        # Nothing is left of the arenas before.
        training.allocator.give_back()
        figures = training.allocator.figures()
        assert figures.reserved_bytes == training.device.created_bytes
        assert figures.arena_bytes <= report.arena_bytes + PAGE_BYTES
        pages_of_heap = figures.reserved_bytes - figures.arena_bytes
        assert pages_of_heap <= figures.heap_bytes + 2 * PAGE_BYTES * (1 + len(training.live))
        training.check_account()
    training.free_all()


def test_a_place_of_a_dropped_plan_is_kept_until_it_is_freed() -> None:
    # The second block of a step is freed in the middle of the next one.
    one = [
        Request(50_000, 0, Life.WITHIN, 1),
        Request(60_000, 0, Life.NEXT, 1),
    ]
    other = [Request(700, 0, Life.WITHIN, 1) for _ in range(9)]
    training = Training(patience=1)
    training.run(one, 5)
    assert training.planned
    arena = training.allocator.figures().arena_bytes
    held = training.made[1]
    training._from_last_step.clear()
    training.step(other)
    assert training.memory.report().status == "profiling"
    assert training.allocator.figures().reserved_bytes >= arena
    planned_anew(training, other)
    assert training.memory.report().plans == 2
    assert training.allocator.figures().reserved_bytes >= arena
    training.free(held)
    training.allocator.give_back()
    assert training.allocator.figures().reserved_bytes < arena
    assert training.device.created_bytes == training.allocator.figures().reserved_bytes


def test_what_other_streams_do_in_a_dropped_arena_is_waited_for() -> None:
    training = Training(patience=1)
    one = [Request(60_000, 0, Life.WITHIN, 1)]
    training.run(one, 4)
    with training.memory.step():
        block = training.make(one[0])
        training.allocator.use_on(block.address, STREAMS[1])
        training.device.submit(STREAMS[1])
        training.free(block)
    assert training.device.live_events == 1
    # Pages may not disappear while the other stream is at work: the device is waited for.
    training.step([Request(700, 0, Life.WITHIN, 1)] * 3)
    assert training.memory.report().status == "profiling"
    assert training.device.live_events == 0
    assert training.allocator.figures().arena_bytes == 0
    training.free_all()


def test_a_few_unlike_steps_change_nothing() -> None:
    one, other = two_programs(1)
    training = Training(patience=3)
    training.run(one, 4)
    for _ in range(4):
        training.run(other, 2)
        training.step(one)
        training.step(one)
    assert training.memory.report().plans == 1
    assert served(training, one)


def within(requests: int, first_size: int) -> Program:
    return [Request(first_size + 1024 * k, 0, Life.WITHIN, requests) for k in range(requests)]


def plan_is_kept(training: Training, program: Program) -> bool:
    training.step(program)
    return training.planned


def test_a_step_is_unlike_where_more_than_half_of_it_is_not_as_planned() -> None:
    training = Training(patience=1)
    program = within(4, 100)
    training.run(program, 3)
    # What comes after the end of the plan is not as planned.
    assert plan_is_kept(training, program + within(4, 500))
    assert not plan_is_kept(training, program + within(5, 500))
    training.free_all()


def test_what_outlives_a_step_is_as_planned() -> None:
    training = Training(patience=1)
    program = [*within(2, 100), *[Request(300, 0, Life.KEPT)] * 4]
    training.run(program, 3)
    assert training.memory.report().escaping_requests == 4
    assert plan_is_kept(training, program + within(6, 500))
    assert not plan_is_kept(training, program + within(7, 500))
    training.free_all()


def test_a_step_that_did_not_complete_is_not_judged() -> None:
    training = Training(patience=1)
    training.run(within(4, 100), 3)
    training.step(within(9, 500), breaks_at=8)
    assert training.memory.report().fallback_requests == 8
    assert training.planned
    assert not plan_is_kept(training, within(9, 500))
    training.free_all()


def test_every_plan_gives_back_what_moved_from_the_heap_to_its_arena() -> None:
    training = Training(patience=1)
    for number, pages in enumerate((2, 3), 1):
        large = Request(pages * PAGE_BYTES, 0, Life.NEXT, 0)
        program = [*[large] * 5, Request(700, 0, Life.WITHIN, 6)]
        planned_anew(training, program)
        assert training.memory.report().plans == number
        # In the step that the plan served first, the heap's block of the step before was freed.
        figures = training.allocator.figures()
        assert figures.reserved_bytes - figures.arena_bytes <= PAGE_BYTES
        training.let_go()
    training.free_all()


def test_patience_grows_with_every_plan() -> None:
    training = Training(patience=1, max_profiled_steps=2)
    programs = [
        [Request(1 + 600 * number + 40 * k, 0, Life.WITHIN, k + 1) for k in range(6)]
        for number in range(40)
    ]
    plans = []
    for program in programs:
        training.step(program)
        plans.append(training.memory.report().plans)
    # Two profiled steps, a plan at the beginning of the next, then 1, 2, 4, 8 unlike steps.
    changes = [step for step in range(1, len(plans)) if plans[step] > plans[step - 1]]
    assert changes == [2, 5, 9, 15, 25]
    training.free_all()


def test_no_patience_is_one_line() -> None:
    with pytest.raises(GaplessError, match=r"^patience: at least 1 step, or None .*, found 0$"):
        PlannedMemory("naive", patience=0)
