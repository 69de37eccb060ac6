"""Steps that run unlike the planned one: nothing shares a byte, and the plan serves the next."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from gpu_runtime._core import MismatchKind
from tests.gpu_runtime.allocator.deviations import DEVIATIONS, random_deviation
from tests.gpu_runtime.allocator.synthetic_training import (
    STREAMS,
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


def check_counts(training: Training, plan_requests: int) -> None:
    """Every request of a planned step is counted once, and so is every request of the plan."""
    training.check_account()
    report = training.memory.report()
    assert (
        report.planned_requests
        + report.escaping_requests
        + report.mismatch_counts.get("in_use", 0)
        + report.missing_requests
        == plan_requests * report.planned_steps
    )


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
            assert served(training, program)
        check_counts(training, len(program))
        training.free_all()


@one_by_one("seed", range(40), first=10)
def test_many_deviations_in_a_row(seed: int) -> None:
    rng = Random(seed)
    program = random_program(rng, rng.randint(2, 150), rng.randint(1, 3), kept=0.02)
    training = planned_training(program)
    for _ in range(15):
        unlike = random_deviation(rng, program) if rng.random() < 0.8 else program
        breaks_at = rng.randrange(len(unlike) + 1) if rng.random() < 0.2 else None
        training.step(unlike, breaks_at)
        if rng.random() < 0.2:
            training.let_go()
    check_counts(training, len(program))
    training.let_go()
    assert served(training, program)
    training.free_all()


@pytest.mark.parametrize("seed", range(10))
def test_few_sizes_make_requests_hard_to_tell_apart(seed: int) -> None:
    rng = Random(seed)
    program = random_program(rng, 60, 2, sizes=3)
    training = planned_training(program)
    for _ in range(20):
        training.step(random_deviation(rng, program))
    check_counts(training, len(program))
    training.let_go()
    assert served(training, program)
    training.free_all()


@pytest.mark.parametrize("seed", range(10))
def test_what_one_step_leaves_too_long_costs_the_next_alone(seed: int) -> None:
    rng = Random(seed)
    program = random_program(rng, 60, 2)
    training = planned_training(program)
    for _ in range(8):
        lives = {Life.WITHIN: Life.NEXT, Life.BETWEEN: Life.NEXT}
        training.step([Request(r.size, r.stream, lives.get(r.life, r.life), 60) for r in program])
        training.step(program)
        assert served(training, program)
    assert training.memory.report().mismatch_counts.keys() == {"in_use"}
    check_counts(training, len(program))


@pytest.mark.parametrize("breaks_at", [0, 1, 20, 39, 40])
def test_an_error_in_the_middle_of_a_step(breaks_at: int) -> None:
    program = random_program(Random(breaks_at), 40, 2)
    training = planned_training(program)
    for _ in range(3):
        training.step(program, breaks_at)
        training.let_go()
        assert served(training, program)
    report = training.memory.report()
    assert report.fallback_requests == 0
    assert report.missing_requests == 3 * (40 - min(breaks_at, 40))
    check_counts(training, len(program))


def distinct(requests: int) -> Program:
    """Requests of sizes that occur once, each freed before the one after the next."""
    return [Request(700 * (k + 1), 0, Life.WITHIN, min(k + 2, requests)) for k in range(requests)]


def cut(program: Program, begin: int, left_out: int) -> Program:
    """Leave out a run of requests; what is later ends as much earlier."""
    later = [
        Request(r.size, r.stream, r.life, r.end - left_out) for r in program[begin + left_out :]
    ]
    return program[:begin] + later


@pytest.mark.parametrize("begin", [0, 5, 17])
@pytest.mark.parametrize("left_out", [1, 2, 7])
def test_the_third_request_after_missing_ones_is_served(begin: int, left_out: int) -> None:
    program = distinct(30)
    training = planned_training(program)
    addresses = [block.address for block in training.made]
    training.step(cut(program, begin, left_out))
    report = training.memory.report()
    assert report.mismatch_counts == {"size": 2}
    assert report.missing_requests == left_out + 2
    place = dict(zip((request.size for request in program), addresses, strict=True))
    elsewhere = [b for b in training.made if b.address != place[b.request.size]]
    assert [b.request.size for b in elsewhere] == [
        request.size for request in program[begin + left_out : begin + left_out + 2]
    ]
    assert served(training, program)


@pytest.mark.parametrize("at", [0, 5, 29])
def test_an_added_request_costs_no_more_than_itself(at: int) -> None:
    program = distinct(30)
    training = planned_training(program)
    later = [Request(r.size, r.stream, r.life, r.end + 1) for r in program[at:]]
    training.step([*program[:at], Request(13, 0, Life.WITHIN, 31), *later])
    report = training.memory.report()
    assert report.mismatch_counts == {"size": 1}
    assert (report.fallback_requests, report.fallback_bytes) == (1, 13)
    assert report.missing_requests == 0


def test_a_step_is_not_sought_for_too_far_ahead() -> None:
    # Each is freed before the next is made.
    program = [Request(1 + k, 0, Life.WITHIN, 0) for k in range(4200)]
    training = planned_training(program)
    training.step(program[4090:])
    assert training.memory.report().fallback_requests == 2
    training.step(program[4096:])
    assert training.memory.report().fallback_requests == 2 + 104
    assert served(training, program)


def test_what_is_freed_early_only_makes_room() -> None:
    program = random_program(Random(3), 80, 3)
    training = planned_training(program)
    training.step([Request(r.size, r.stream, Life.WITHIN, k + 1) for k, r in enumerate(program)])
    training.let_go()
    assert training.memory.report().fallback_requests == 0
    assert served(training, program)


def test_every_kind_of_mismatch_with_its_numbers() -> None:
    """Sizes 1000 and 2000 share bytes: the first is freed before the second is made."""
    program = [
        Request(1000, 7, Life.WITHIN, 1),
        Request(2000, 7, Life.WITHIN, 2),
        Request(500, 0, Life.WITHIN, 3),
    ]
    training = planned_training(program)
    first, second, _ = training.made
    assert first.address < second.end
    assert second.address < first.end
    held_too_long = Request(1000, 7, Life.NEXT, 3)
    added = [Request(300, 0, Life.BETWEEN), Request(300, 99, Life.BETWEEN)]
    training.step([held_too_long, program[1], Request(501, 0, Life.BETWEEN), program[2], *added])
    report = training.memory.report()
    found = [
        (m.kind, m.step, m.stream, m.request, m.size, m.expected_size, m.in_the_way)
        for m in report.mismatches
    ]
    assert found == [
        ("in_use", 3, 7, 1, 2000, 2000, 0),
        ("size", 3, 0, 0, 501, 500, -1),
        ("extra", 3, 0, 1, 300, -1, -1),
        ("stream", 3, 99, -1, 300, -1, -1),
    ]
    assert report.mismatch_counts == {kind.name.lower(): 1 for kind in MismatchKind}
    assert (report.fallback_requests, report.fallback_bytes) == (4, 2000 + 501 + 300 + 300)
    # The block that was held goes at the end of this step; until then its own place is taken too.
    training.step(program)
    after = [(m.kind, m.request, m.in_the_way) for m in training.memory.report().mismatches[4:]]
    assert after == [("in_use", 0, 0), ("in_use", 1, 0)]
    assert served(training, program)


def test_a_block_that_is_held_for_good_keeps_its_bytes() -> None:
    program = random_program(Random(8), 50, 2)
    training = planned_training(program)
    training.step([Request(r.size, r.stream, Life.KEPT) for r in program])
    held = len(training.kept)
    for _ in range(5):
        training.step(program)
    assert len(training.kept) == held == 50
    assert training.memory.report().mismatch_counts["in_use"] > 5
    training.let_go()
    assert served(training, program)
    check_counts(training, len(program))


def test_two_streams_never_get_the_same_bytes() -> None:
    """The work of one stream is not ordered before another's, whatever the host does first."""
    program = [
        Request(5000, STREAMS[k % 2], Life.WITHIN, k + 1) for k in range(10)
    ]  # never two in use
    training = planned_training(program)
    places: dict[int, set[int]] = {STREAMS[0]: set(), STREAMS[1]: set()}
    for block in training.made:
        places[block.request.stream].add(block.address)
    assert not places[STREAMS[0]] & places[STREAMS[1]]
    assert training.memory.report().arena_bytes == 2 * 5120


def test_requests_are_recognised_in_a_row_alone() -> None:
    program = [Request(700 * (k + 1), 0, Life.BETWEEN) for k in range(30)]
    training = planned_training(program)
    training.step([program[20], program[0], program[21], program[1], program[22], *program[2:]])
    report = training.memory.report()
    assert report.mismatch_counts == {"size": 3}
    assert report.missing_requests == 0


def test_requests_that_were_recognised_do_not_count_again() -> None:
    program = [Request(700 * size, 0, Life.BETWEEN) for size in (1, 2, 3, 4, 9, 3, 4, 5, 8)]
    training = planned_training(program)
    # The second to fourth are recognised as such; with the eighth they are in the plan once more.
    training.step([program[k] for k in (1, 2, 3, 7)])
    report = training.memory.report()
    assert report.mismatch_counts == {"size": 3}
    assert report.missing_requests == 3 + 5


def test_requests_are_recognised_within_one_step() -> None:
    program = [Request(700 * (k + 1), 0, Life.BETWEEN) for k in range(30)]
    training = planned_training(program)
    training.step([program[20], program[21]])
    missing = training.memory.report().missing_requests
    training.step([program[22], *program])
    report = training.memory.report()
    assert report.mismatch_counts == {"size": 3}
    assert report.missing_requests == missing == 30
