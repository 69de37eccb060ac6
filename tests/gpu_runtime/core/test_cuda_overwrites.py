"""Writes to free memory on a CUDA device, over a stand-in of the driver that runs the kernels."""

from __future__ import annotations

import pytest

from tests.gpu_runtime.core.driver_stand_in import DRIVER, output_of, stand_in

pytestmark = pytest.mark.core

PREPARE = f"""
import ctypes
from gpu_runtime._core import CudaMemory, PlannedAllocator

PAGE = 2 << 20
IMAGE = b"image\\0"

def checked():
    memory = CudaMemory(0)
    memory.load_checks(IMAGE)
    return PlannedAllocator(memory, is_checked=True)

def driver():
    return ctypes.CDLL("{DRIVER}")

def refusal(call):
    try:
        call()
    except (OSError, MemoryError) as error:
        return f"{{type(error).__name__}}: {{error}}"
    return "none"

def told(found):
    return [(each.bytes, each.before.request, each.after.request) for each in found]
"""


def said(code: str) -> list[str]:
    """Return the lines that code prints in a process of its own."""
    return output_of(code, stand_in(), PREPARE).splitlines()


def test_a_write_after_free_is_found_by_the_kernels() -> None:
    code = """
    allocator = checked()
    allocator.begin_step()
    first, second = allocator.allocate(1000, 3), allocator.allocate(3 * PAGE, 3)
    ctypes.memset(second, 7, 3 * PAGE)
    allocator.free(first)
    allocator.free(second)
    print(told(allocator.take_overwrites(True)))
    ctypes.memset(first + 24, 7, 16)
    ctypes.memset(second + 2 * PAGE, 7, PAGE)
    print(allocator.allocate(1000, 3) == first, allocator.allocate(3 * PAGE, 3) == second)
    found = allocator.take_overwrites()
    print(told(found), [each.address - each.before.address for each in found])
    print(allocator.take_overwrites(True))
    print(driver().host_depth())
    """
    assert said(code) == [
        "[]", "True True",
        f"[(16, 0, 2), ({2 << 20}, 1, 3)] [24, {4 << 20}]",
        "[]", "0",
    ]  # fmt: skip


def test_the_kernels_and_the_simulated_device_agree_on_free_words() -> None:
    code = """
    from gpu_runtime._core import SimulatedMemory
    from tests.gpu_runtime.core.free_words import free_words

    simulated = PlannedAllocator(SimulatedMemory(PAGE, 8 * PAGE), is_checked=True)
    for allocator in (checked(), simulated):
        block = allocator.allocate(PAGE)
        allocator.free(block)
        print(ctypes.string_at(block, PAGE) == free_words(block, PAGE))
    """
    assert said(code) == ["True", "True"]


def test_more_places_than_are_kept_are_not_all_told() -> None:
    code = """
    allocator = checked()
    blocks = [allocator.allocate(512) for _ in range(1500)]
    for block in blocks:
        allocator.free(block)
        ctypes.memset(block, 7, 8)
        allocator.allocate(512)
    print(len(allocator.take_overwrites()), len(allocator.take_overwrites()))
    """
    assert said(code) == ["1024 0"]


def test_blocks_freed_during_a_capture_are_not_stamped() -> None:
    # The driver refuses what would be captured.
    code = """
    allocator = checked()
    block = allocator.allocate(1000, 3)
    driver().host_capture(ctypes.c_void_p(3))
    ctypes.memset(block, 7, 1000)
    allocator.free(block)
    driver().host_end_capture(ctypes.c_void_p(3))
    print(ctypes.string_at(block, 4), told(allocator.take_overwrites(True)))
    """
    assert said(code) == [f"{bytes([7] * 4)!r} []"]


def test_a_launch_that_is_refused_loses_nothing_but_its_check() -> None:
    code = """
    for after in range(6):
        allocator = checked()
        driver().host_fail_launch(after)
        for _ in range(3):
            block = allocator.allocate(1000, 3)
            ctypes.memset(block, 7, 1000)
            allocator.free(block)
        print(allocator.figures().refused_frees, allocator.take_overwrites(True))
        driver().host_fail_launch(-1)
        ctypes.memset(block, 7, 8)
        allocator.give_back()
    """
    assert said(code) == ["0 []"] * 6


def test_kernels_of_the_checks_are_loaded_first_and_unloaded() -> None:
    code = """
    memory = CudaMemory(0)
    print(memory.capability)
    print(refusal(lambda: PlannedAllocator(memory, is_checked=True)))
    print(refusal(lambda: memory.load_checks(b"other\\0")), driver().host_kernel_handles())
    driver().host_fail(b"cuMemAlloc", 2)
    print(refusal(lambda: memory.load_checks(IMAGE)), driver().host_kernel_handles())
    memory.load_checks(IMAGE)
    print(driver().host_kernel_handles())
    del memory
    print(driver().host_kernel_handles(), driver().host_created_bytes(), driver().host_depth())
    """
    assert said(code) == [
        "(9, 0)",
        "OSError: no checks are loaded; call load_checks() first",
        "OSError: cuModuleLoadData: CUDA_ERROR_INVALID_VALUE (1) 0",
        "MemoryError: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2) 0",
        "2",
        "0 0 0",
    ]
