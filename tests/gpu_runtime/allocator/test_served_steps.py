"""Steps that repeat: every request at its place, nothing lost, and a report that is true."""

from __future__ import annotations

from random import Random

import pytest

from gpu_runtime.allocator.step_problem import PHASES
from tests.gpu_runtime.allocator.synthetic_training import (
    SETTLED_STEPS,
    STREAMS,
    Life,
    Program,
    Request,
    Training,
    planned_training,
    random_program,
    rounded,
    served,
)

pytestmark = pytest.mark.core

SEEDS = range(30)


def some_program(seed: int, kept: float = 0.0) -> Program:
    rng = Random(seed)
    return random_program(rng, rng.randint(1, 120), rng.randint(1, len(STREAMS)), kept=kept)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_that_repeats_is_served_at_the_same_addresses(seed: int) -> None:
    program = some_program(seed)
    training = planned_training(program)
    addresses = []
    for _ in range(7):
        assert served(training, program)
        addresses.append([block.address for block in training.made])
    # A block that is freed after its next request has two places, in turn.
    assert addresses[PHASES:] == addresses[:-PHASES]
    report = training.memory.report()
    assert (report.planned_requests, report.escaping_requests) == (7 * len(program), 0)
    training.check_account()
    training.free_all()


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_that_stay_have_no_place(seed: int) -> None:
    program = some_program(seed, kept=0.05)
    training = planned_training(program)
    for _ in range(10):
        assert served(training, program)
    kept = sum(request.life is Life.KEPT for request in program)
    assert len(training.kept) == (SETTLED_STEPS + 10) * kept
    assert training.memory.report().escaping_requests >= 10 * kept
    training.check_account()
    training.free_all()


def most_live(program: Program) -> int:
    """The most bytes in use at once, by an endless repetition, in whole blocks."""
    live = peak = 0
    due: dict[tuple[int, int], int] = {}
    for step in range(3):
        for k, request in enumerate(program):
            live -= due.pop((step, k), 0)
            live += rounded(request.size)
            peak = max(peak, live)
            end = (step + (request.life is Life.NEXT), request.end)
            if request.life is Life.BETWEEN or end[1] == len(program):
                end = (end[0] + 1, 0)
            due[end] = due.get(end, 0) + rounded(request.size)
    return peak


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_needs_what_lives(seed: int) -> None:
    program = [r for r in some_program(seed) if r.life is not Life.NEXT]
    program = [
        Request(r.size, 0, r.life, min(max(r.end, k + 1), len(program)))
        for k, r in enumerate(program)
    ]
    if not program:
        return
    training = planned_training(program, "auto")
    report = training.memory.report()
    assert report.lower_bound == most_live(program)
    assert report.escaping_bytes == 0
    assert report.arena_bytes >= report.lower_bound
    assert (report.arena_bytes == report.lower_bound) == (report.status == "optimal")


def test_a_step_of_nothing_is_not_planned() -> None:
    training = Training()
    training.run([], 3)
    assert training.memory.report().status == "profiling"
    program = [Request(1000, 0, Life.WITHIN, 1)]
    training.run(program, 3)
    assert served(training, program)


def test_peaks_and_counts_are_reset() -> None:
    program = [Request(1000, 0, Life.WITHIN, 2), Request(2000, 0, Life.NEXT, 1)]
    training = planned_training(program)
    training.step([Request(5, 0, Life.WITHIN, 1)])
    assert training.memory.report().mismatch_counts == {"size": 1}
    assert training.memory.report().unexpected_requests == 1
    training.memory.reset_peaks()
    report = training.memory.report()
    assert report.steps == report.planned_requests == report.unexpected_requests == 0
    assert report.mismatches == ()
    assert report.mismatch_counts == {}
    assert report.requested_bytes == training.live_requested
    assert report.arena_bytes == 1024 + 2048
    training.step(program)
    training.step(program)
    assert training.memory.report().planned_requests >= 2
