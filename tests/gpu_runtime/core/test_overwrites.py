"""Writes to free memory are found where the bytes are handed out again, and nothing else is."""

from __future__ import annotations

import contextlib
import ctypes
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest

from gpu_runtime._core import PlannedAllocator, SimulatedMemory, StepPlan, with_hand_overs
from tests.gpu_runtime.core.small_plans import small_plan
from tests.slow import one_by_one

pytestmark = pytest.mark.core

PAGE = 4096
WORD = 8


def checked(*, is_plain: bool = False) -> tuple[SimulatedMemory, PlannedAllocator]:
    memory = SimulatedMemory(PAGE, 1024 * PAGE)
    return memory, PlannedAllocator(memory, is_plain=is_plain, is_checked=True)


def plan(places: list[tuple[int, int, int]]) -> StepPlan:
    """Return the plan of requests with these streams, bytes and offsets."""
    streams, *_ = zip(*places, strict=True)
    return small_plan([(size, offset) for _, size, offset in places], list(streams))


def write(address: int, size: int = WORD) -> None:
    """Write what a program could have written."""
    ctypes.memset(address, 7, size)


def test_a_write_after_free_names_both_tenants() -> None:
    #  offset  0   1   2
    #          | 0 | 1 |
    #          |   2   |
    memory, allocator = checked()
    allocator.adopt([plan([(0, 1000, 0), (0, PAGE, PAGE), (0, 2 * PAGE, 0)])], 2 * PAGE)
    for is_wrong in (False, True, False):
        allocator.begin_step()
        first, second = allocator.allocate(1000), allocator.allocate(PAGE)
        write(first, 1000)
        write(second, PAGE)
        allocator.free(first)
        allocator.free(second)
        if is_wrong:
            write(second + 16, 24)
        third = allocator.allocate(2 * PAGE)
        assert third == first
        write(third, 2 * PAGE)
        allocator.free(third)
        allocator.end_step()
        found = allocator.take_overwrites()
        assert len(found) == is_wrong
        if is_wrong:
            (overwrite,) = found
            assert overwrite.address == second + 16
            assert (overwrite.offset, overwrite.bytes) == (PAGE + 16, 24)
            before, after = overwrite.before, overwrite.after
            assert (before.address, before.bytes, before.stream) == (second, PAGE, 0)
            assert (before.request, before.step) == (1, 1)
            assert (after.address, after.bytes) == (first, 2 * PAGE)
            assert (after.request, after.step) == (2, 1)
    assert memory.live_events == 0


def test_a_write_beyond_a_block_is_found_in_the_free_memory_behind() -> None:
    _, allocator = checked()
    block = allocator.allocate(1024)
    write(block, 1024 + WORD)
    (found,) = allocator.take_overwrites(everywhere=True)
    assert (found.address, found.bytes, found.offset) == (block + 1024, WORD, -1)
    assert (found.before.bytes, found.after.bytes) == (0, 0)
    assert allocator.take_overwrites(everywhere=True) == []


def test_a_free_number_is_not_a_number() -> None:
    _, allocator = checked()
    block = allocator.allocate(4 * PAGE)
    allocator.free(block)
    free = np.frombuffer(ctypes.string_at(block, 4 * PAGE), np.uint8)
    for kind_of_float in (np.float64, np.float32, np.float16):
        assert np.isnan(free.view(kind_of_float)).all()
    bfloat16 = free.view(np.uint16).astype(np.uint32) << 16
    assert np.isnan(bfloat16.view(np.float32)).all()
    words = free.view(np.uint64)
    assert (words[1:] != words[:-1]).all()


def waits_of(memory: SimulatedMemory) -> list[tuple[int, int, int]]:
    return [(wait.waiting, wait.awaited, wait.position) for wait in memory.waits]


def test_a_stamp_comes_after_all_who_used_the_block() -> None:
    memory, allocator = checked()
    block = allocator.allocate(1000, 3)
    for stream in (5, 6):
        memory.submit(stream, block, 1000)
        allocator.use_on(block, stream)
    seen = len(memory.waits)
    allocator.free(block)
    assert waits_of(memory)[seen:] == [(3, 5, 1), (3, 6, 1)]


@pytest.mark.parametrize("is_foreseen", [True, False])
def test_another_stream_waits_for_the_stamp(is_foreseen: bool) -> None:
    memory, allocator = checked()
    plans = [plan([(3, PAGE, 0), (5, PAGE, 0)])]
    if is_foreseen:
        # Then what is to be waited for is marked when the block is freed.
        plans = with_hand_overs(plans, PAGE)
        assert list(plans[0].handed_over) == [1, 1]
    allocator.adopt(plans, PAGE)
    allocator.begin_step()
    block = allocator.allocate(PAGE, 3)
    memory.submit(3, block, PAGE)
    memory.finish(3)
    allocator.free(block)
    seen = len(memory.waits)
    assert allocator.allocate(PAGE, 5) == block
    # The comparison for the first owner, its work, and the stamp.
    assert waits_of(memory)[seen:] == [(5, 3, 3)]


def test_the_first_owner_of_new_memory_waits_for_its_stamp() -> None:
    memory, allocator = checked()
    allocator.allocate(PAGE, 3)
    ((waiting, own, position),) = waits_of(memory)
    assert (waiting, position) == (3, 1)
    allocator.allocate(PAGE, 3)
    assert {awaited for _, awaited, _ in waits_of(memory)} == {own}


def test_a_stream_waits_for_the_check_of_its_memory() -> None:
    memory, allocator = checked()
    allocator.adopt([plan([(3, PAGE, 0), (5, PAGE, 0)])], PAGE)
    allocator.begin_step()
    block = allocator.allocate(PAGE, 3)
    allocator.free(block)
    assert allocator.take_overwrites(everywhere=True) == []
    seen = len(memory.waits)
    allocator.allocate(PAGE, 5)
    # After the comparison for the first owner, the stamp, and the comparison of all.
    assert (5, 3, 3) in waits_of(memory)[seen:]


def test_new_memory_is_handed_to_a_stream_that_is_captured() -> None:
    # It is stamped on a stream of the device's own, for which this one cannot wait.
    memory, allocator = checked()
    memory.set_captured(3, True)
    assert allocator.allocate(1000, 3)
    assert memory.captured_work == 0


def test_blocks_freed_during_a_capture_are_not_stamped() -> None:
    for captured in (0, 5):
        memory, allocator = checked()
        block = allocator.allocate(1000)
        allocator.use_on(block, 5)
        write(block, 1000)
        memory.set_captured(captured, True)
        allocator.free(block)
        memory.set_captured(captured, False)
        assert memory.captured_work == 0
        assert allocator.take_overwrites(everywhere=True) == []
        for stream in (0, 5):
            memory.finish(stream)
        assert allocator.allocate(1000) == block
        assert allocator.take_overwrites() == []
        allocator.free(block)
        write(block)
        assert len(allocator.take_overwrites(everywhere=True)) == 1


def test_a_program_that_never_asks_keeps_a_bounded_past() -> None:
    _, allocator = checked()
    block = allocator.allocate(1000)
    allocator.free(block)
    write(block)
    for _ in range((1 << 16) + 1):
        assert allocator.allocate(1000) == block
        allocator.free(block)
    (found,) = allocator.take_overwrites()
    assert (found.address, found.before.bytes, found.after.bytes) == (block, 0, 0)


@dataclass
class Program:
    """Random requests on three streams, which write to all of what they have."""

    random: Random
    is_plain: bool
    memory: SimulatedMemory = field(init=False)
    allocator: PlannedAllocator = field(init=False)
    live: dict[int, tuple[int, int]] = field(default_factory=dict)  # request and bytes
    requests: int = -1  # of the running step; -1 between steps

    def __post_init__(self) -> None:
        self.memory, self.allocator = checked(is_plain=self.is_plain)

    def plans(self) -> list[StepPlan]:
        """Return plans of steps with sizes as in the program, and wrong offsets."""
        draw = self.random
        return [
            plan(
                [
                    (draw.choice((0, 3, 5)), self.size(), 512 * draw.randrange(64))
                    for _ in range(draw.randrange(1, 12))
                ]
            )
            for _ in range(3)
        ]

    def size(self) -> int:
        """Return the bytes of a request."""
        return self.random.choice((512, 1000, PAGE, 3 * PAGE, self.random.randrange(1, 6 * PAGE)))

    def allocate(self) -> int:
        """Return a new block, written to by its owner and perhaps by another stream."""
        size, stream = self.size(), self.random.choice((0, 3, 5))
        block = self.allocator.allocate(size, stream)
        self.live[block] = (self.requests, size)
        self.requests += self.requests >= 0
        write(block, size)
        self.memory.submit(stream, block, size)
        if self.random.random() < 0.2:
            self.memory.submit(7, block, size)
            self.allocator.use_on(block, 7)
        return block

    def free(self) -> tuple[int, int, int]:
        """Return the address, the request and the bytes of a block that is freed."""
        block = self.random.choice(list(self.live))
        request, size = self.live.pop(block)
        self.allocator.free(block)
        return block, request, size

    def turn(self) -> None:
        """Do one of the things that programs do."""
        if self.random.random() < 0.1:
            self.memory.finish(self.random.choice((0, 3, 5, 7)))
        if self.live and self.random.random() < len(self.live) / 24:
            self.free()
        else:
            self.allocate()

    def between(self) -> None:
        """Do what is done between steps."""
        choice = self.random.random()
        if choice < 0.3:
            self.allocator.adopt(self.plans(), PAGE * self.random.randrange(32, 64))
        elif choice < 0.4:
            self.allocator.adopt([], 0)
        elif choice < 0.5:
            self.allocator.give_back()
        elif choice < 0.6:
            self.allocator.check()

    def step(self, turns: int) -> None:
        """Run a step."""
        self.between()
        self.allocator.begin_step(self.random.randrange(2))
        self.requests = 0
        for _ in range(turns):
            self.turn()
        self.allocator.end_step()
        self.requests = -1

    def end(self) -> None:
        """Free everything and give it back."""
        while self.live:
            self.free()
        self.allocator.adopt([], 0)
        self.allocator.give_back()
        assert (self.memory.created_bytes, self.memory.live_events) == (0, 0)


@one_by_one("seed", range(40), first=6)
def test_a_program_that_keeps_to_its_own_is_never_accused(seed: int) -> None:
    program = Program(Random(seed), is_plain=seed % 3 == 2)
    for step in range(12):
        program.step(40)
        assert program.allocator.take_overwrites(everywhere=step % 3 == 0) == []
    program.end()


@one_by_one("seed", range(40), first=6)
def test_each_write_after_free_is_found_at_its_block(seed: int) -> None:
    program = Program(Random(seed), is_plain=seed % 3 == 2)
    for _ in range(12):
        program.step(30)
        assert program.allocator.take_overwrites() == []
        block, request, size = program.free()
        at = block + WORD * program.random.randrange(-(-size // WORD))
        write(at)
        for _ in range(program.random.randrange(20)):
            program.turn()
        overwrites = program.allocator.take_overwrites(everywhere=True)
        assert [(each.address, each.bytes) for each in overwrites] == [(at, WORD)]
        assert overwrites[0].before.request == request
        before = overwrites[0].before
        assert (before.address, before.bytes) == (block, size)
    program.end()


@one_by_one("seed", range(12), first=2)
def test_a_device_that_refuses_calls_leads_to_no_false_accusation(seed: int) -> None:
    for calls in range(0, 400, 7):
        program = Program(Random(seed), is_plain=seed % 2 == 1)
        program.allocator.adopt(program.plans(), 32 * PAGE)
        program.memory.fail_after(calls, 1 + calls % 2)
        with contextlib.suppress(OSError, MemoryError):
            program.step(40)
        program.memory.fail_after(0, 0)
        assert program.allocator.take_overwrites(everywhere=True) == []
        program.allocator.check()
