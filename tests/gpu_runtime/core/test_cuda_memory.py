"""The device by CUDA's driver, over a stand-in of it; each in a process of its own.

A process opens the driver once, and finds it by its name in the library path.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu_runtime.core import driver_stand_in
from tests.gpu_runtime.core.driver_stand_in import DRIVER, NAMED, stand_in
from tests.gpu_runtime.cpp_program import compile_cpp, written_cpp
from tests.repository import ROOT

pytestmark = pytest.mark.core

PREPARE = f"""
import ctypes
from gpu_runtime._core import CudaMemory, PlannedAllocator, PytorchExpandable
from tests.gpu_runtime.core.small_plans import small_plan
from tests.gpu_runtime.core.stamped_blocks import StampedBlocks

PAGE = 2 << 20

def driver():
    return ctypes.CDLL("{DRIVER}")

def refusal(call):
    try:
        call()
    except (OSError, MemoryError) as error:
        return f"{{type(error).__name__}}: {{error}}"
    return "none"
"""


def output_of(code: str, folder: Path) -> str:
    return driver_stand_in.output_of(code, folder, PREPARE)


def test_blocks_lie_in_memory_that_the_driver_mapped() -> None:
    code = """
    memory = CudaMemory(0)
    assert memory.page_bytes == PAGE
    heap = StampedBlocks(PlannedAllocator(memory))
    small, large = heap.allocate(1000, 3), heap.allocate(3 * PAGE, 3)
    heap.check_all()
    print(driver().host_created_bytes() // PAGE, driver().host_mapped_bytes() // PAGE)
    heap.free(large)
    heap.allocator.give_back()
    heap.check_all()
    print(driver().host_created_bytes() // PAGE, driver().host_mapped_bytes() // PAGE)
    print(driver().host_depth(), driver().host_primary_contexts())
    """
    assert output_of(code, stand_in()) == "4 4\n1 1\n0 1\n"


def test_a_stream_is_marked_when_it_is_not_captured_any_more() -> None:
    code = """
    heap = StampedBlocks(PlannedAllocator(CudaMemory(0)))
    block = heap.allocate(1000, 3)
    heap.allocator.use_on(block.address, 5)
    driver().host_capture(ctypes.c_void_p(5))
    heap.free(block)
    print(heap.allocator.figures().refused_frees, driver().host_events())
    print(heap.allocate(1000, 3).address == block.address)
    driver().host_end_capture(ctypes.c_void_p(5))
    print(heap.allocate(1000, 3).address == block.address, driver().host_events())
    """
    assert output_of(code, stand_in()) == "0 0\nFalse\nTrue 0\n"


@pytest.mark.parametrize(
    ("status", "found"), [(906, "none 0"), (999, "OSError 1")], ids=["elsewhere", "unknown"]
)
def test_each_status_of_a_capture_is_obeyed(status: int, found: str) -> None:
    code = f"""
    memory = CudaMemory(0)
    allocator = PlannedAllocator(memory)
    block = allocator.allocate(1000, 3)
    allocator.use_on(block, 5)
    driver().host_say_of_capture({status})
    allocator.free(block)
    refused = allocator.figures().refused_frees
    print(("none", "OSError")[refused], refused)
    """
    assert output_of(code, stand_in()) == f"{found}\n"


@pytest.mark.parametrize("status", [400, 709])
def test_a_stream_that_is_gone_is_not_marked(status: int) -> None:
    code = f"""
    allocator = PlannedAllocator(CudaMemory(0))
    block = allocator.allocate(1000, 3)
    allocator.use_on(block, 5)
    driver().host_say_of_capture({status})
    driver().host_fail(b"cuEventRecord", {status})
    allocator.free(block)
    driver().host_say_of_capture(0)
    print(allocator.figures().refused_frees, driver().host_events())
    print(allocator.allocate(1000, 3) == block)
    allocator.give_back()
    print(allocator.allocate(1000, 3) == block)
    """
    assert output_of(code, stand_in()) == "0 0\nFalse\nTrue\n"


def test_streams_wait_for_each_other_by_events() -> None:
    code = """
    heap = StampedBlocks(PlannedAllocator(CudaMemory(0)))
    block = heap.allocate(1000, 3)
    driver().host_submit(5)
    heap.allocator.use_on(block.address, 5)
    heap.free(block)
    print(driver().host_events(), heap.allocate(1000, 3).address == block.address)
    driver().host_finish(5)
    print(heap.allocate(1000, 3).address == block.address, driver().host_events())

    heap.allocator.adopt([small_plan([(PAGE, 0), (PAGE, 0)], 3)], PAGE)
    heap.allocator.begin_step()
    first = heap.allocate(PAGE, 3)
    driver().host_submit(5)
    heap.allocator.use_on(first.address, 5)
    heap.free(first)
    print(driver().host_events(), driver().host_waits())
    print(heap.allocate(PAGE, 3).address == first.address)
    print(driver().host_events(), driver().host_waits())
    heap.allocator.end_step()
    print(driver().host_depth())
    """
    assert output_of(code, stand_in()) == "1 False\nTrue 0\n1 0\nTrue\n0 1\n0\n"


def test_refusals_carry_the_drivers_name_of_the_error() -> None:
    code = """
    allocator = PlannedAllocator(CudaMemory(0))
    print(refusal(lambda: allocator.allocate(65 * PAGE)))
    kept = allocator.allocate(33 * PAGE)
    print(refusal(lambda: allocator.allocate(32 * PAGE)))
    allocator.free(kept)
    allocator.give_back()
    for call, status in ((b"cuMemMap", 1), (b"cuMemSetAccess", 999), (b"cuMemSetAccess", 2)):
        driver().host_fail(call, status)
        print(refusal(lambda: allocator.allocate(1)))
        allocator.check()
    print(driver().host_depth())
    allocator.give_back()
    """
    lines = output_of(code, stand_in()).splitlines()
    assert lines[0] == "MemoryError: 134217728 bytes are free"
    # What is not known to be too much is tried.
    assert lines[1] == "MemoryError: cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2)"
    # Where it is short of memory once, it is tried again.
    assert lines[2:] == [
        "OSError: cuMemMap: CUDA_ERROR_INVALID_VALUE (1)",
        "OSError: cuMemSetAccess: unknown error (999)",
        "none",
        "0",
    ]


@pytest.mark.parametrize("call", ["cuEventRecord", "cuEventCreate"])
def test_an_event_that_is_not_recorded_is_not_kept(call: str) -> None:
    code = f"""
    heap = StampedBlocks(PlannedAllocator(CudaMemory(0)))
    block = heap.allocate(1000, 3)
    heap.allocator.use_on(block.address, 5)
    driver().host_fail(b"{call}", 1)
    heap.free(block)
    print(heap.allocator.figures().refused_frees, driver().host_events(), driver().host_depth())
    """
    assert output_of(code, stand_in()) == "1 0 0\n"


def test_a_context_is_released_as_often_as_it_is_retained() -> None:
    code = """
    memory = CudaMemory(0)
    print(driver().host_primary_contexts())
    del memory
    print(driver().host_primary_contexts())
    print(refusal(lambda: CudaMemory(2)))
    driver().host_fail(b"cuMemGetAllocationGranularity", 1)
    print(refusal(lambda: CudaMemory(0)))
    print(driver().host_primary_contexts())
    """
    assert output_of(code, stand_in()).splitlines() == [
        "1",
        "0",
        "OSError: cuDeviceGet: CUDA_ERROR_INVALID_DEVICE (101)",
        "OSError: cuMemGetAllocationGranularity: CUDA_ERROR_INVALID_VALUE (1)",
        "0",
    ]


def test_devices_of_a_process_reach_each_others_memory() -> None:
    code = """
    first = PlannedAllocator(CudaMemory(0))
    first.allocate(PAGE)
    print(driver().host_open_to(0), driver().host_open_to(1))
    second = PlannedAllocator(CudaMemory(1))
    print(driver().host_open_to(0), driver().host_open_to(1))
    first.allocate(PAGE)
    second.allocate(PAGE)
    print(driver().host_open_to(0), driver().host_open_to(1))
    again = CudaMemory(1)
    second.free(second.allocate(PAGE))
    second.give_back()
    print(driver().host_open_to(0), driver().host_open_to(1), driver().host_depth())
    """
    assert output_of(code, stand_in()).splitlines() == ["1 0", "1 1", "3 3", "3 3 0"]


@pytest.mark.parametrize("is_planned", [False, True], ids=["heap", "arena"])
def test_pages_go_only_after_work_on_another_device(is_planned: bool) -> None:
    code = f"""
    first, second = PlannedAllocator(CudaMemory(0)), PlannedAllocator(CudaMemory(1))
    driver().host_stream_on(5, 1)
    if {is_planned}:
        first.adopt([small_plan([(PAGE, 0)])], PAGE)
        first.begin_step()
    block = first.allocate(PAGE)
    driver().host_submit(5)
    first.use_on(block, 5)
    first.free(block)
    if {is_planned}:
        first.end_step()
        first.adopt([], 0)
    first.give_back()
    print(driver().host_created_bytes(), driver().host_events(), driver().host_depth())
    """
    # The simulated memory refuses to let pages disappear while a stream is at work.
    assert output_of(code, stand_in()) == "0 0 0\n"


@pytest.mark.parametrize("which", ["first", "last"])
def test_mappings_opened_together_may_be_unmapped_in_parts(which: str) -> None:
    code = f"""
    first = PytorchExpandable(CudaMemory(0))
    # Two pages of 20 MiB at once, of which one stays.
    large = first.allocate(12 * PAGE)
    print(driver().host_open_to(0))
    if "{which}" == "last":
        kept = first.allocate(8 * PAGE)
        first.free(large)
    else:
        first.free(large)
        kept = first.allocate(5 * PAGE)
    first.give_back()
    print(driver().host_open_to(0))
    second = CudaMemory(1)
    print(driver().host_open_to(1), driver().host_depth())
    first.free(kept)
    first.give_back()
    third = CudaMemory(1)
    print(driver().host_open_to(0), driver().host_open_to(1), driver().host_events())
    """
    assert output_of(code, stand_in()).splitlines() == ["2", "1", "1 0", "0 0 0"]


def test_devices_that_do_not_reach_each_other_keep_to_their_own() -> None:
    code = """
    driver().host_keep_devices_apart()
    first, second = PlannedAllocator(CudaMemory(0)), PlannedAllocator(CudaMemory(1))
    first.allocate(PAGE)
    second.allocate(PAGE)
    second.allocate(PAGE)
    print(driver().host_open_to(0), driver().host_open_to(1))
    """
    assert output_of(code, stand_in()) == "1 2\n"


def test_a_device_that_cannot_be_let_in_is_refused() -> None:
    code = """
    first = PlannedAllocator(CudaMemory(0))
    first.allocate(PAGE)
    driver().host_fail(b"cuMemSetAccess", 999)
    print(refusal(lambda: CudaMemory(1)))
    print(driver().host_primary_contexts(), driver().host_depth())
    second = CudaMemory(1)
    print(driver().host_open_to(1))
    """
    assert output_of(code, stand_in()).splitlines() == [
        "OSError: cuMemSetAccess: unknown error (999)", "1 0", "1",
    ]  # fmt: skip


def test_an_event_is_recorded_where_the_stream_is() -> None:
    code = """
    heap = StampedBlocks(PlannedAllocator(CudaMemory(0)))
    driver().host_stream_on(5, 1)
    block = heap.allocate(1000, 3)
    driver().host_submit(5)
    heap.allocator.use_on(block.address, 5)
    heap.free(block)
    print(driver().host_events(), heap.allocate(1000, 3).address == block.address)
    driver().host_finish(5)
    print(heap.allocate(1000, 3).address == block.address, driver().host_events())
    print(heap.allocator.figures().refused_frees, driver().host_depth())
    """
    assert output_of(code, stand_in()) == "1 False\nTrue 0\n0 0\n"


def test_without_a_driver_the_message_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / DRIVER).write_text("not a library")
    # A machine with a driver finds this file first only when its process begins with the path.
    ended = subprocess.run(
        [sys.executable, "-c", PREPARE + "print(refusal(lambda: CudaMemory(0)))"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
        cwd=ROOT,
    )
    said = ended.stdout
    assert said.startswith(f"OSError: no CUDA driver: {DRIVER} cannot be opened (")
    assert said.endswith("); install NVIDIA's driver\n")


def test_a_driver_that_lacks_a_function_is_too_old() -> None:
    code = 'extern "C" int cuGetErrorName(int, const char**) { return 0; }\n'
    source = written_cpp("old_driver.cpp", code)
    folder = compile_cpp(DRIVER, [source], NAMED).parent
    assert output_of("print(refusal(lambda: CudaMemory(0)))", folder) == (
        "OSError: the CUDA driver has no function cuInit; CUDA 11.4 or newer is needed\n"
    )


def test_memory_is_paused_and_resumed_through_pinned_memory() -> None:
    code = """
    memory = CudaMemory(0)
    heap = StampedBlocks(PlannedAllocator(memory))
    for size in (1000, 3 * PAGE):
        heap.allocate(size, 3)
    print(heap.allocator.pause(None, True) // PAGE, driver().host_created_bytes())
    print(driver().host_allocations(), driver().host_kernel_handles())
    print(heap.allocator.resume(None) // PAGE, driver().host_created_bytes() // PAGE)
    heap.check_all()
    print(driver().host_allocations(), driver().host_depth())
    heap.allocator.give_back()
    print(driver().host_allocations())
    driver().host_fail(b"cuMemHostAlloc", 2)
    print(refusal(lambda: heap.allocator.pause(None, True)))
    heap.check_all()
    del heap, memory
    print(driver().host_kernel_handles())
    """
    assert output_of(code, stand_in()) == (
        "4 0\n1 1\n4 4\n1 0\n0\n"
        f"MemoryError: no pinned host memory of {4 * (2 << 20)} bytes: "
        "cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)\n0\n"
    )
