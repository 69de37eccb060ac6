"""Trials of books on logs: what they count, and that they begin where the program is."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from gpu_runtime._core import (
    Book,
    CountingMemory,
    LedgerMemory,
    PlannedAllocator,
    TrialOutcome,
    TrialTerms,
    try_book,
)
from tests.gpu_runtime.core.small_plans import small_kind

pytestmark = pytest.mark.core

PAGE = 1 << 16
SIZES = [3 * PAGE, 2 * PAGE, 5 * PAGE]
NO_GUESTS = np.empty((0, 3), np.int64)
Log = NDArray[np.int64]


class Program:
    """Steps on a ledger, and their logs."""

    def __init__(self) -> None:
        self.counted = CountingMemory(LedgerMemory(PAGE, 1 << 40))
        self.allocator = PlannedAllocator(self.counted)
        self.logs: list[Log] = []

    def step(self, sizes: Sequence[int], stay: int = 0) -> list[int]:
        """Run a step whose last blocks stay; return their addresses."""
        self.allocator.begin_step()
        blocks = [self.allocator.allocate(size) for size in sizes]
        staying = blocks[len(blocks) - stay :]
        for block in blocks[: len(blocks) - stay]:
            self.allocator.free(block)
        self.allocator.end_step()
        self.logs.append(self.allocator.take_log())
        return staying

    def terms(self) -> TrialTerms:
        figures = self.allocator.figures()
        return TrialTerms(PAGE, False, figures.allocated_bytes, figures.live_peak)

    def try_book(self, book: Book | None, guests: Log = NO_GUESTS, last: int = 8) -> TrialOutcome:
        return try_book(self.logs[-last:], self.terms(), book, guests)


def book_of(sizes: Sequence[int]) -> Book:
    offsets = np.cumsum([0, *sizes]).tolist()
    kind = small_kind(list(zip(sizes, offsets[:-1], strict=True)))
    return Book.with_hand_overs([kind], offsets[-1])


def test_a_book_that_fits_costs_nothing() -> None:
    program = Program()
    for _ in range(6):
        program.step(SIZES)
    alone, planned = program.try_book(None), program.try_book(book_of(SIZES))
    for outcome in (alone, planned):
        assert outcome.reserved_peak == sum(SIZES)
        assert outcome.memory_calls == outcome.host_waits == 0
    assert planned.unserved == 0


def test_a_book_of_another_program_serves_nothing_and_costs_memory_calls() -> None:
    program, rng = Program(), Random(1)
    for _ in range(8):
        program.step([rng.randint(1, 9) * PAGE for _ in range(5)])
    other = program.try_book(book_of([40 * PAGE] * 4))
    # Hints end where none fits, and all requests of the last four steps are unserved.
    assert other.unserved >= 4 * 5
    assert other.reserved_peak > program.try_book(None).reserved_peak


@pytest.mark.parametrize("seed", range(5))
def test_the_heap_alone_is_as_it_was(seed: int) -> None:
    program, rng = Program(), Random(seed)
    for _ in range(8):
        program.step(sorted(rng.randint(1, 9) * PAGE for _ in range(5)))
    figures, outcome = program.allocator.figures(), program.try_book(None)
    assert figures.live_peak <= outcome.reserved_peak <= figures.reserved_peak


def test_blocks_of_before_are_there() -> None:
    program = Program()
    stay = program.step([*SIZES, 7 * PAGE, 1000], stay=2)
    for _ in range(5):
        program.step(SIZES)
    program.allocator.free(stay[1])
    program.step(SIZES)
    # Of these steps the log tells of the end of one block, and the terms of the bytes of the other.
    outcome = program.try_book(None, last=2)
    assert outcome.reserved_peak == sum(SIZES) + 8 * PAGE
    assert program.try_book(book_of(SIZES), last=2).unserved == 0
    # An arena that is too large lies beside the block that stays.
    wasteful = Book.with_hand_overs([small_kind([(PAGE, 0)])], 13 * PAGE)
    assert program.try_book(wasteful, last=2).reserved_peak >= (13 + 7) * PAGE


def test_gradients_of_the_last_step_are_those_of_the_step_before() -> None:
    program, before = Program(), list[int]()
    for _ in range(8):
        program.allocator.begin_step()
        for block in before:
            program.allocator.free(block)
        before = [program.allocator.allocate(size) for size in SIZES]
        program.allocator.end_step()
        program.logs.append(program.allocator.take_log())
    for book in (None, book_of(SIZES)):
        outcome = program.try_book(book)
        assert outcome.memory_calls == outcome.host_waits == 0
        assert book is None or outcome.unserved == 0


@pytest.mark.parametrize("is_recent", [False, True])
def test_a_guest_is_in_the_way(is_recent: bool) -> None:
    program = Program()
    program.step([*SIZES, PAGE], stay=1)
    for _ in range(5):
        program.step(SIZES)
    guest = np.array([[0, PAGE, len(SIZES)]])
    last = 8 if is_recent else 4
    free, taken = (program.try_book(book_of(SIZES), rows, last) for rows in (NO_GUESTS, guest))
    # After the adoption, one request of each step finds its place occupied.
    assert (free.unserved, taken.unserved) == (0, len(program.logs[-last:]) // 2)
    # Beyond the arena it is in nobody's way.
    beyond = guest.copy()
    beyond[0, 0] = sum(SIZES)
    assert program.try_book(book_of(SIZES), beyond, last).unserved == 0


def test_a_log_begins_with_its_step() -> None:
    program = Program()
    for _ in range(4):
        program.step(SIZES)
    program.logs[0] = program.logs[0][2:]
    with pytest.raises(RuntimeError, match="a step ends that did not begin"):
        program.try_book(None)
