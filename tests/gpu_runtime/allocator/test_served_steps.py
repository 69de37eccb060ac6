"""Steps that repeat: every request at its place, nothing lost, and a report that is true."""

from __future__ import annotations

from random import Random

import pytest

from tests.gpu_runtime.allocator.synthetic_training import (
    PAGE_BYTES,
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


def has_place(request: Request, index: int, program: Program) -> bool:
    """Whether a request ends before its own turn in the next step, as its stream counts turns."""
    if request.life is not Life.NEXT:
        return request.life is not Life.KEPT
    between = program[index : request.end]
    return not any(other.stream == request.stream for other in between)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_that_repeats_is_served_at_the_same_addresses(seed: int) -> None:
    program = some_program(seed)
    training = Training()
    for number in range(2):
        training.step(program)
        assert training.memory.report().status == "profiling", number
    assert served(training, program)
    assert training.planned
    in_plan = [has_place(request, k, program) for k, request in enumerate(program)]
    addresses = [block.address for block in training.made]
    for _ in range(6):
        assert served(training, program)
        for is_in, address, block in zip(in_plan, addresses, training.made, strict=True):
            assert not is_in or block.address == address
    report = training.memory.report()
    assert report.planned_requests == 7 * sum(in_plan)
    assert report.escaping_requests == 7 * (len(program) - sum(in_plan))
    training.check_account()
    training.free_all()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_stays_for_good_goes_to_the_heap(seed: int) -> None:
    program = some_program(seed, kept=0.05)
    training = planned_training(program)
    for _ in range(10):
        assert served(training, program)
    assert len(training.kept) == 13 * sum(request.life is Life.KEPT for request in program)
    training.check_account()
    training.free_all()


@pytest.mark.parametrize("seed", SEEDS)
def test_reserved_is_the_arena_and_the_pages_of_the_heap(seed: int) -> None:
    program = some_program(seed)
    training = Training()
    weights = [training.make(Request(3000 * k + 1, STREAMS[0], Life.KEPT)) for k in range(20)]
    training.run(program, 5)
    training.allocator.give_back()
    figures, report = training.allocator.figures(), training.memory.report()
    assert figures.reserved_bytes == training.device.created_bytes
    # The rest of the arena has a page of its own, or a part of one that the heap has anyway.
    whole, rest = divmod(report.arena_bytes, PAGE_BYTES)
    in_heap = rest > 0 and figures.arena_bytes == whole * PAGE_BYTES
    assert in_heap or figures.arena_bytes == (whole + (rest > 0)) * PAGE_BYTES
    arena = {block.address for k, block in enumerate(training.made)
             if has_place(program[k], k, program)}  # fmt: skip
    pages = {
        page
        for begin, end, _ in training.live
        if begin not in arena
        for page in range(begin // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1)
    }
    of_heap = figures.reserved_bytes - figures.arena_bytes
    # Of the heap's page nothing else may be in use by now.
    assert len(pages) * PAGE_BYTES <= of_heap <= (len(pages) + in_heap) * PAGE_BYTES
    for block in weights:
        training.free(block)
    training.free_all()


def most_live_in_the_arena(program: Program) -> int:
    """Sum over the streams of the most that is in use at once, by an endless repetition.

    What is freed while its stream asks for nothing is as good as freed at the stream's next
    request, before which nobody needs its bytes.
    """
    total = 0
    for stream in {request.stream for request in program}:
        live = peak = 0
        due: dict[tuple[int, int], int] = {}
        for step in range(3):
            for k, request in enumerate(program):
                live -= due.pop((step, k), 0)
                if request.stream != stream or not has_place(request, k, program):
                    continue
                live += rounded(request.size)
                peak = max(peak, live)
                end = (step + 1, request.end) if request.life is Life.NEXT else (step, request.end)
                if request.life is Life.BETWEEN or end[1] == len(program):
                    end = (step + 1, 0)
                due[end] = due.get(end, 0) + rounded(request.size)
        total += peak
    return total


@pytest.mark.parametrize("seed", SEEDS)
def test_planned_bytes_and_bound_by_an_account_of_live_bytes(seed: int) -> None:
    program = some_program(seed, kept=0.03)
    training = Training()
    training.make(Request(70_001, STREAMS[0], Life.KEPT))
    training.run(program, 2)
    left = sum(
        rounded(block.request.size)
        for block in training.made
        if block.request.life in (Life.NEXT, Life.KEPT)
    )
    persisting = training.live_bytes - left
    training.step(program)
    report = training.memory.report()
    renewed = sum(
        rounded(request.size)
        for k, request in enumerate(program)
        if not has_place(request, k, program)
    )
    assert report.escaping_bytes == persisting + 2 * renewed
    assert report.planned_bytes == report.arena_bytes + report.escaping_bytes
    live = most_live_in_the_arena(program)
    assert report.lower_bound == live + persisting + renewed
    assert report.arena_bytes >= live
    # This planner proves nothing; the bound is that of the lifetimes.
    assert (report.arena_bytes == live) == (report.status == "optimal")
    # The next step needs no more, apart from what the one before has left for good.
    training.memory.reset_peaks()
    training.peak_bytes = training.live_bytes
    training.step(program)
    left_for_good = sum(rounded(r.size) for r in program if r.life is Life.KEPT)
    assert training.memory.report().allocated_bytes == training.peak_bytes
    assert training.peak_bytes <= report.planned_bytes + left_for_good


def test_a_step_of_nothing_is_not_planned() -> None:
    training = Training()
    training.run([], 3)
    assert training.memory.report().status == "profiling"
    program = [Request(1000, 0, Life.WITHIN, 1)]
    training.run(program, 2)
    assert served(training, program)


def test_peaks_and_counts_are_reset() -> None:
    program = [Request(1000, 0, Life.WITHIN, 2), Request(2000, 0, Life.NEXT, 1)]
    training = planned_training(program)
    training.step([Request(5, 0, Life.WITHIN, 1)])
    assert training.memory.report().fallback_requests == 1
    training.memory.reset_peaks()
    report = training.memory.report()
    assert report.steps == report.planned_requests == report.fallback_requests == 0
    assert report.missing_requests == 0
    assert report.mismatches == ()
    assert report.mismatch_counts == {}
    assert report.requested_bytes == training.live_requested
    assert report.planned_bytes == 1024 + 2048
    training.step(program)
    assert training.memory.report().planned_requests == 2
