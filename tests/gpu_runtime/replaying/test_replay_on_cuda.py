"""A replay on a GPU, and over a driver that stands for one: one allocator after the other."""

from __future__ import annotations

import json
from itertools import chain

import pytest

from gpu_runtime._core import CudaMemory
from instances.traces.trace_requests import requests_of_trace
from planners.model.online_result import OnlineDevice, OnlineTerms
from planners.online.online_run import run_online
from planners.registry import choose_online
from tests.gpu_runtime.core.driver_stand_in import DRIVER, output_of, stand_in
from tests.gpu_runtime.replaying.recordings import random_trace

OURS = "pytorch-*,gmlake,vpmm,planned"
# There is no compiler for kernels: the driver takes a word for them.
REPLAY = f"""
    import ctypes, json
    from gpu_runtime._core import CudaMemory
    from gpu_runtime.replaying import replay_device
    from instances.traces.trace_requests import requests_of_trace
    from planners.model.online_result import OnlineDevice, OnlineTerms
    from planners.online.online_run import run_online
    from planners.registry import choose_online
    from tests.gpu_runtime.replaying.recordings import random_trace

    replay_device.load_checks = lambda memory: memory.load_checks(b"image\\0")
    driver = ctypes.CDLL("{DRIVER}")
    kept = CudaMemory(0)
    requests = requests_of_trace(random_trace(6, 16, streams=3))
    for terms in (
        OnlineTerms(OnlineDevice.LEDGER),
        OnlineTerms(OnlineDevice.CUDA),
        OnlineTerms(OnlineDevice.CUDA, is_verified=True),
    ):
        rows = run_online(requests, choose_online("{OURS}"), terms).rows
        print(json.dumps([row.reason for row in rows]))
        print(json.dumps([
            [row.result.requested_peak, row.result.reserved_peak, dict(row.result.device_calls)]
            for row in rows
        ]))
        print(json.dumps([sorted(row.result.device_seconds) for row in rows]))
    left = driver.host_events(), driver.host_kernel_handles(), driver.host_depth()
    print(driver.host_created_bytes(), driver.host_mapped_bytes(), *left)
"""


def test_each_allocator_does_over_a_driver_what_it_does_over_a_ledger() -> None:
    lines = output_of(REPLAY, stand_in()).splitlines()
    reasons, figures, timed = ([json.loads(line) for line in lines[part:9:3]] for part in range(3))
    # Nothing marks iterations.
    assert [[reason.partition(":")[0] for reason in each] for each in reasons] == [
        [*[""] * 4, "planned nothing"]
    ] * 3
    assert figures[0] == figures[1] == figures[2]
    assert {"allocate_plain", "create_pages", "map"} <= set(chain(*timed[1]))
    assert timed[0] == [[]] * 5
    # Each left the driver as it found it.
    assert lines[-1] == "0 0 0 0 0"


def test_the_kernels_tell_blocks_apart() -> None:
    code = """
        from gpu_runtime._core import BlockStamps, CudaMemory

        memory = CudaMemory(0)
        memory.load_checks(b"image\\0")
        address = memory.allocate_plain(1 << 21)
        stamps = BlockStamps(memory, memory)
        for number, offset in enumerate((0, 1024, 1536)):
            stamps.hand_out(number, address + offset, 1000)
        stamps.take_back_all()
        print([(each.number, each.address - address, each.words) for each in stamps.found()])
    """
    # Rounded up to 1,008 bytes, of which the third has the second's last 496.
    assert output_of(code, stand_in()) == "[(1, 1536, 62)]\n"


@pytest.mark.gpu
def test_each_allocator_serves_all_on_a_gpu_and_gives_all_back() -> None:
    memory = CudaMemory(0)
    requests = requests_of_trace(random_trace(6, 300, streams=3))
    ledger = run_online(requests, choose_online(OURS), OnlineTerms()).rows
    free = memory.free_bytes()
    for is_verified in (False, True):
        terms = OnlineTerms(OnlineDevice.CUDA, is_verified=is_verified)
        for chosen, expected in zip(choose_online(OURS), ledger, strict=True):
            (row,) = run_online(requests, [chosen], terms).rows
            assert row.result is not None
            assert expected.result is not None
            assert row.result.requested_peak == expected.result.requested_peak
            assert row.result.device_calls.keys() == row.result.device_seconds.keys() - {"other"}
            assert memory.free_bytes() >= free - (64 << 20)
