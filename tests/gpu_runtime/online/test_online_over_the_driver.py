"""Online allocators over a stand-in of CUDA's driver, as PyTorch's allocator asks them."""

from __future__ import annotations

import pytest

from gpu_runtime.online.online_allocators import CORE
from tests.gpu_runtime.core import driver_stand_in
from tests.gpu_runtime.core.driver_stand_in import DRIVER, stand_in

pytestmark = pytest.mark.core

PREPARE = f"""
import ctypes
from random import Random
from gpu_runtime import OnlineMemory
from gpu_runtime._core import CudaMemory
from tests.gpu_runtime.core.stamped_blocks import StampedBlocks

MIB = 1 << 20
driver = ctypes.CDLL("{DRIVER}")

def heap_of(name):
    return StampedBlocks(OnlineMemory(name).attach(CudaMemory(0)))
"""


@pytest.mark.parametrize("name", CORE)
def test_blocks_have_bytes_of_their_own(name: str) -> None:
    code = f"""
    heap, random = heap_of("{name}"), Random(5)
    for turn in range(120):
        if len(heap.live) < 10 and random.random() < 0.6:
            size = random.choice((700, random.randint(1, 2 * MIB), random.randint(1, 5 * MIB)))
            block = heap.allocate(size, random.choice((0, 3, 5)))
            if turn % 3 == 0:
                heap.allocator.use_on(block.address, random.choice((3, 5)))
        elif heap.live:
            heap.free(random.choice(list(heap.live.values())))
        if turn % 40 == 0:
            heap.check_all()
    heap.free_all()
    heap.allocator.give_back()
    heap.check_all()
    print(driver.host_created_bytes(), driver.host_events(), driver.host_depth())
    """
    assert driver_stand_in.output_of(code, stand_in(), PREPARE) == "0 0 0\n"


@pytest.mark.parametrize("name", CORE)
def test_a_graph_gets_nothing_of_a_block_that_is_freed(name: str) -> None:
    code = f"""
    heap = heap_of("{name}")
    of_graph, beside = heap.allocate(3 * MIB, 5), heap.allocate(3 * MIB, 3)
    driver.host_capture(ctypes.c_void_p(5))
    events = driver.host_events()
    heap.free(of_graph)
    heap.free(beside)
    # At most one, for the work of the stream that is not captured.
    print(driver.host_events() - events <= 1)
    driver.host_end_capture(ctypes.c_void_p(5))
    heap.allocate(3 * MIB, 5)
    heap.check_all()
    heap.free_all()
    heap.allocator.give_back()
    print(driver.host_created_bytes(), driver.host_events(), driver.host_depth())
    """
    assert driver_stand_in.output_of(code, stand_in(), PREPARE) == "True\n0 0 0\n"
