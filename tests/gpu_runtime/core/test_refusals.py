"""Plans that the device does not let in: the former ones stay, and nothing is lost.

Any call of the device may fail in the random programs; here is what is left of a plan then.
"""

from __future__ import annotations

import numpy as np
import pytest

from gpu_runtime._core import PlannedAllocator, SimulatedMemory, StepPlan
from tests.gpu_runtime.core.small_plans import small_plan

pytestmark = pytest.mark.core

PAGE = 4096
FORMER = 40 * PAGE
LATER = 100 * PAGE


def plans(size: int) -> list[StepPlan]:
    return [small_plan([(size, 0)])]


@pytest.mark.parametrize("is_plain", [False, True], ids=["mapped", "plain"])
@pytest.mark.parametrize("failures", [1, 2, 3, 9])
def test_the_former_plan_stays_where_the_next_one_is_refused(failures: int, is_plain: bool) -> None:
    reasons = []
    for call in range(40):
        memory = SimulatedMemory(PAGE, 400 * PAGE)
        allocator = PlannedAllocator(memory, is_plain)
        allocator.adopt(plans(FORMER), FORMER)
        memory.fail_after(call, failures)
        try:
            allocator.adopt(plans(LATER), LATER)
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
            assert end.is_planned
            assert end.planned == 1
        allocator.adopt([], 0)
        allocator.give_back()
        allocator.check()
        assert memory.created_bytes == memory.mapped_bytes == memory.live_events == 0
    assert reasons
    assert all("told to fail" in said or "no physical memory" in said for said in reasons)


@pytest.mark.parametrize("is_plain", [False, True], ids=["mapped", "plain"])
def test_the_former_plan_stays_if_memory_is_short(is_plain: bool) -> None:
    memory = SimulatedMemory(PAGE, 120 * PAGE)
    allocator = PlannedAllocator(memory, is_plain)
    allocator.adopt(plans(FORMER), FORMER)
    held = allocator.allocate(64 * PAGE)
    with pytest.raises(MemoryError):
        allocator.adopt(plans(LATER), LATER)
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
    allocator.adopt(plans(FORMER), FORMER)
    allocator.adopt(plans(LATER), LATER)
    assert memory.created_bytes == LATER


def test_steps_do_not_nest_and_plans_are_adopted_between_them() -> None:
    allocator = PlannedAllocator(SimulatedMemory(PAGE, 120 * PAGE))
    with pytest.raises(ValueError, match=r"^step: a label is at least 0, found -1$"):
        allocator.begin_step(-1)
    allocator.begin_step()
    with pytest.raises(RuntimeError, match="plans are adopted between steps"):
        allocator.adopt(plans(PAGE), PAGE)
    with pytest.raises(RuntimeError, match="a step begins within a step"):
        allocator.begin_step()
    allocator.end_step()
    with pytest.raises(RuntimeError, match="a step ends that did not begin"):
        allocator.end_step()


@pytest.mark.parametrize(
    ("place", "rule"),
    [
        ((0, 0), "plan 1: a request has at least one byte, found 0 at offset 0, request 1"),
        ((PAGE, 100), "plan 1: offsets are multiples of 512, found 4096 at offset 100, request 1"),
        ((PAGE, -2), "plan 1: offsets are multiples of 512, found 4096 at offset -2, request 1"),
        (
            (PAGE, 512),
            "plan 1: places lie within the arena of 4096 bytes, found 4096",
        ),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(place: tuple[int, int], rule: str) -> None:
    allocator = PlannedAllocator(SimulatedMemory(PAGE, 120 * PAGE))
    with pytest.raises(ValueError, match=f"^{rule}"):
        allocator.adopt([small_plan([(PAGE, 0)]), small_plan([(PAGE, 0), place])], PAGE)
    column = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="every request has bytes and an offset, found 2 and 1"):
        allocator.adopt([StepPlan(-1, column, column, column[:1])], PAGE)
    assert not allocator.has_plans
    assert allocator.figures().reserved_bytes == 0
