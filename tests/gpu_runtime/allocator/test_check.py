"""Planned memory that looks who writes to what he has given back."""

from __future__ import annotations

import ctypes
import json

import pytest

from gpu_runtime import PlannedMemory
from gpu_runtime._core import PlannedAllocator, SimulatedMemory
from planners.errors import DeviceError

pytestmark = pytest.mark.core

PAGE = 4096


def checked() -> tuple[PlannedMemory, PlannedAllocator]:
    allocator = PlannedAllocator(SimulatedMemory(PAGE, 64 * PAGE), is_checked=True)
    memory = PlannedMemory(check=True)
    memory.attach(allocator)
    return memory, allocator


def use_after_free(allocator: PlannedAllocator, times: int = 1) -> int:
    """Write to a block that was freed, have it handed out again, and return where it is."""
    for _ in range(times):
        block = allocator.allocate(1000)
        allocator.free(block)
        ctypes.memset(block + 16, 7, 24)
        assert allocator.allocate(900) == block
    return block


def test_a_step_in_which_free_memory_was_written_to_ends_with_an_error() -> None:
    memory, allocator = checked()
    with pytest.raises(DeviceError) as raised, memory.step():
        block = use_after_free(allocator)
    assert str(raised.value) == (
        f"memory was written to while it was free: 24 bytes at {block + 16:#x}; byte 16 of "
        f"request 0, 1,000 bytes at {block:#x} on stream 0x0, freed in step 0; then request 1, "
        f"900 bytes at {block:#x} on stream 0x0, in step 0"
    )
    with memory.step():
        pass
    assert "written to while it was free" in str(memory.report())
    assert len(memory.report().overwrites) == 1
    json.dumps(memory.report().to_json())
    memory.reset_peaks()
    assert memory.report().overwrites == ()
    assert "written to" not in str(memory.report())


def test_an_error_of_the_step_is_told_with_it() -> None:
    memory, allocator = checked()
    with pytest.raises(DeviceError, match="while it was free") as raised, memory.step():
        ctypes.memset(use_after_free(allocator), 7, 1 // 0)
    assert isinstance(raised.value.__context__, ZeroDivisionError)


def test_the_first_of_several_places_is_told_and_how_many_more() -> None:
    memory, allocator = checked()
    with pytest.raises(DeviceError, match=r"\(and 1 more, in the report\)$"), memory.step():
        use_after_free(allocator, times=2)
    assert len(memory.report().overwrites) == 2


def test_the_report_looks_at_all_that_is_free() -> None:
    memory, allocator = checked()
    block = allocator.allocate(1000)
    allocator.free(block)
    ctypes.memset(block, 7, 8)
    (found,) = memory.report().overwrites
    assert found.before is not None
    assert (found.address, found.before.size, found.after) == (block, 1000, None)
    with memory.step():
        allocator.allocate(1000)


@pytest.mark.parametrize("completed", [True, False])
def test_a_device_that_cannot_be_waited_for_does_not_hide_the_steps_error(completed: bool) -> None:
    simulated = SimulatedMemory(PAGE, 64 * PAGE)
    memory = PlannedMemory(check=True)
    memory.attach(PlannedAllocator(simulated, is_checked=True))
    memory.begin_step()
    simulated.fail_after(0)
    if completed:
        with pytest.raises(DeviceError, match="check: synchronize"):
            memory.end_step()
    else:
        memory.end_step(completed=False)


def test_an_allocator_that_does_not_check_is_refused() -> None:
    allocator = PlannedAllocator(SimulatedMemory(PAGE, 64 * PAGE))
    with pytest.raises(DeviceError, match="made without is_checked"):
        PlannedMemory(check=True).attach(allocator)
    memory = PlannedMemory()
    memory.attach(allocator)
    with memory.step():
        use_after_free(allocator)
    assert memory.report().overwrites == ()
