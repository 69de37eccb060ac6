"""A book that the device does not let in: the former one stays, and nothing is lost.

Any call of the device may fail in the random programs; here is what is left of a plan then.
"""

from __future__ import annotations

import pytest

from gpu_runtime._core import Book, KindPlan, PlannedAllocator, SimulatedMemory
from tests.gpu_runtime.core.small_plans import small_kind

pytestmark = pytest.mark.core

PAGE = 4096
FORMER = 40 * PAGE
LATER = 100 * PAGE


def kinds(size: int) -> list[KindPlan]:
    return [small_kind([(size, 0)])]


@pytest.mark.parametrize("is_plain", [False, True], ids=["mapped", "plain"])
@pytest.mark.parametrize("failures", [1, 2, 3, 9])
def test_the_former_book_stays_where_the_next_one_is_refused(failures: int, is_plain: bool) -> None:
    reasons = []
    for call in range(40):
        memory = SimulatedMemory(PAGE, 400 * PAGE)
        allocator = PlannedAllocator(memory, is_plain)
        allocator.adopt_book(kinds(FORMER), FORMER)
        memory.fail_after(call, failures)
        try:
            allocator.adopt_book(kinds(LATER), LATER)
            adopted = LATER
        except (OSError, MemoryError) as error:
            adopted = FORMER
            reasons.append(str(error))
        memory.fail_after(0, 0)
        allocator.check()
        for _ in range(2):
            allocator.begin_step()
            block = allocator.allocate(adopted)
            allocator.free(block)
            end = allocator.end_step()
            assert (end.planned, end.in_use) == (1, 0)
        allocator.drop_book()
        allocator.give_back()
        allocator.check()
        assert memory.created_bytes == memory.mapped_bytes == memory.live_events == 0
    assert reasons
    assert all("told to fail" in said or "no physical memory" in said for said in reasons)


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_frames_side_by_side_come_and_go_together(failures: int) -> None:
    count = 5
    reasons = set()
    for call in range(40):
        memory = SimulatedMemory(PAGE, 2 * count * PAGE)
        allocator = PlannedAllocator(memory)
        allocator.begin_step()
        memory.fail_after(call, failures)
        try:
            allocator.free(allocator.allocate(count * PAGE))
            allocator.give_back()
        except (OSError, MemoryError) as error:
            reasons.add(str(error).split(":")[0])
        allocator.check()
        memory.fail_after(0, 0)
        # What was there yet is there, or comes again; neither part of it is lost.
        allocator.free(allocator.allocate(2 * count * PAGE))
        allocator.check()
        assert memory.created_bytes == memory.mapped_bytes == 2 * count * PAGE
        allocator.end_step()
        allocator.give_back()
        allocator.check()
        assert memory.created_bytes == memory.mapped_bytes == 0
    assert reasons >= {"map", "unmap", "release_pages"}


@pytest.mark.parametrize("is_plain", [False, True], ids=["mapped", "plain"])
def test_the_former_book_stays_where_memory_is_short(is_plain: bool) -> None:
    memory = SimulatedMemory(PAGE, 120 * PAGE)
    allocator = PlannedAllocator(memory, is_plain)
    allocator.adopt_book(kinds(FORMER), FORMER)
    held = allocator.allocate(64 * PAGE)
    with pytest.raises(MemoryError):
        allocator.adopt_book(kinds(LATER), LATER)
    allocator.check()
    allocator.begin_step()
    assert allocator.figures().arena_bytes == FORMER
    allocator.allocate(FORMER)
    assert allocator.end_step().planned == 1
    allocator.free(held)


@pytest.mark.parametrize("is_plain", [False, True], ids=["mapped", "plain"])
def test_an_idle_arena_makes_room_for_the_next_one(is_plain: bool) -> None:
    memory = SimulatedMemory(PAGE, 120 * PAGE)
    allocator = PlannedAllocator(memory, is_plain)
    allocator.adopt_book(kinds(FORMER), FORMER)
    allocator.adopt_book(kinds(LATER), LATER)
    assert memory.created_bytes == LATER


def test_a_book_is_changed_between_steps_only() -> None:
    allocator = PlannedAllocator(SimulatedMemory(PAGE, 120 * PAGE))
    allocator.begin_step()
    with pytest.raises(RuntimeError, match="a book is adopted between steps"):
        allocator.adopt_book(kinds(PAGE), PAGE)
    with pytest.raises(RuntimeError, match="a book is dropped between steps"):
        allocator.drop_book()
    with pytest.raises(RuntimeError, match="a step begins within a step"):
        allocator.begin_step()
    allocator.end_step()
    with pytest.raises(RuntimeError, match="a step ends that did not begin"):
        allocator.end_step()


def test_a_step_has_a_label_that_a_kind_can_have() -> None:
    allocator = PlannedAllocator(SimulatedMemory(PAGE, 120 * PAGE))
    with pytest.raises(ValueError, match=r"^step: a label is at least -1, found -2$"):
        allocator.begin_step(-2)
    with pytest.raises(ValueError, match=r"^step: a label is at least -1, found -2$"):
        Book([], 0).begin_step(-2)
    # It has not begun.
    allocator.begin_step(-1)
    allocator.end_step()
