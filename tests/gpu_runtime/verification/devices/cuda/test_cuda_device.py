"""The CUDA device over a driver that runs kernels on the host, one after the other."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

from gpu_runtime.verification.devices.cuda import cuda_device
from gpu_runtime.verification.devices.cuda.cuda_device import CudaDevice
from gpu_runtime.verification.devices.cuda.driver import CONNECTIONS_VARIABLE, Driver, require_gpu
from gpu_runtime.verification.devices.cuda.work_table import LEAST_CHUNK_BYTES
from gpu_runtime.verification.devices.simulated_device import SimulatedDevice
from gpu_runtime.verification.injection import inject, moved
from gpu_runtime.verification.trials.adversarial_delays import AdversarialDelays
from gpu_runtime.verification.trials.arena_layout import Layout, full_layout
from gpu_runtime.verification.trials.stamp_check_program import (
    StampCheckProgram,
    make_stamp_check_program,
)
from gpu_runtime.verification.trials.trial import make_trial
from gpu_runtime.verification.verification import VerificationRequest, verify
from planners import Graph, Problem, Safety, place
from planners.errors import DeviceError, GaplessError
from tests.definitions import descendants
from tests.gpu_runtime.cpp_program import compile_cpp
from tests.gpu_runtime.verification.devices.cuda.cuda_on_host import HOST_MEMORY, put_cuda_on_host
from tests.gpu_runtime.verification.devices.cuda.host_kernel import host_library_path
from tests.random_problems import random_problem


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    """Return the library of the host's driver, on which CUDA devices open while a test runs."""
    library = put_cuda_on_host(monkeypatch)
    yield library
    library.host_set_memory(HOST_MEMORY)
    assert library.host_held() == 0, "everything that a device takes is given back"


def graph_problem(seed: int) -> Problem:
    return random_problem(Random(seed), Safety.GRAPH, (1, 12), features=frozenset({"zero"}))


def graph_of(problem: Problem) -> Graph:
    assert problem.graph is not None
    return problem.graph


@pytest.mark.usefixtures("host")
def test_right_plans_pass() -> None:
    for seed in range(40):
        problem = graph_problem(seed)
        plan = place(problem, "size", "first")
        found = verify(problem, plan.offsets, CudaDevice, VerificationRequest(trials=3, seed=seed))
        assert found.passed
        assert found.figures.arena_bytes == plan.peak
        assert found.figures.reserved_bytes == max(-(-plan.peak // 512), 1) * 512


@pytest.mark.usefixtures("host")
def test_what_one_stream_corrupts_is_found_with_its_writer() -> None:
    injected = 0
    for seed in range(40):
        problem = random_problem(
            Random(seed), Safety.LIFETIMES, (4, 12), features=frozenset({"gaps"})
        )
        problem = Problem(problem.size * 24, problem.start, problem.end, gaps=problem.gaps)
        plan = place(problem, "size", "first")
        try:
            injections = inject(problem, plan, 2, seed)
        except GaplessError:
            continue
        offsets, request = moved(plan, injections), VerificationRequest(trials=3, seed=seed)
        found = verify(problem, offsets, CudaDevice, request)
        assert found.corruptions == verify(problem, offsets, SimulatedDevice, request).corruptions
        assert all(found.caught(injection) for injection in injections)
        assert found.false_alarms(injections) == []
        injected += 2
    assert injected > 40


def test_streams_and_events_order_nodes_as_the_graph_does_and_no_more(host: ctypes.CDLL) -> None:
    for seed in range(40):
        problem = graph_problem(seed)
        program = make_stamp_check_program(problem)
        offsets = np.cumsum(problem.size) - problem.size
        device = CudaDevice(program, full_layout(problem, offsets))
        after = descendants(graph_of(problem))
        nodes = launched_nodes(program)
        expected = {(u, v) for u in nodes for v in nodes if v in after[u]}
        for number, submissions in ((0, 3), (1, 1)):
            host.host_forget_launches()
            device.run(make_trial(program, number, seed))
            found = precedes_by_submission(host, program)
            assert found == [expected] * (submissions if nodes else 0)
        device.close()


def test_a_held_node_leaves_room_for_those_that_are_to_pass_it(
    host: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_device, "HELD_BLOCKS", 2)
    apart = StampCheckProgram((0, 1), ((0,), (1,)), ((0,), (1,)), ((), ()))
    size = 3 * LEAST_CHUNK_BYTES
    device = CudaDevice(apart, Layout(np.array([0, size]), np.array([size, size]), 2 * size))
    delays = AdversarialDelays(first=1, last=None, within=False)
    blocks = []
    for number in (0, 1):
        host.host_forget_launches()
        device.run(make_trial(apart, number, 0, delays if number else None))
        blocks.append({host.host_launched(at): host.host_blocks(at) for at in range(2)})
    device.close()
    # Six chunks, and two multiprocessors with two blocks each.
    assert blocks == [{0: 4, 1: 4}, {0: 4, 1: 2}]


def launched_nodes(program: StampCheckProgram) -> list[int]:
    """Return the nodes with something to do."""
    return [n for n in range(program.node_count) if program.stamps[n] or program.checks[n]]


def precedes_by_submission(
    host: ctypes.CDLL, program: StampCheckProgram
) -> list[set[tuple[int, int]]]:
    """Return who precedes whom by streams and events, for each time that all was submitted."""
    nodes = launched_nodes(program)
    return [
        {
            (before, host.host_launched(at))
            for at in range(begin, begin + len(nodes))
            for before in nodes
            if host.host_precedes(at, before)
        }
        for begin in range(0, host.host_launches(), max(len(nodes), 1))
    ]


def test_an_arena_that_does_not_fit_is_one_line(host: ctypes.CDLL) -> None:
    host.host_set_memory(4096)
    problem = Problem([5000], [0], [1])
    with pytest.raises(DeviceError, match=r"cuMemAlloc_v2 of 5000 bytes with 4096 free: CUDA_E"):
        CudaDevice(make_stamp_check_program(problem), full_layout(problem, np.array([0])))


def test_without_a_driver_the_message_says_what_to_do() -> None:
    with pytest.raises(DeviceError, match=r"no CUDA driver: nowhere\.so .*--device cpu"):
        Driver("nowhere.so")


@pytest.mark.parametrize(
    ("status", "count", "message"), [(100, 0, "finds none"), (0, 0, "shows no")]
)
def test_a_driver_without_a_gpu_is_told(
    tmp_path: Path, status: int, count: int, message: str
) -> None:
    source = tmp_path / "driver.cpp"
    source.write_text(
        f'extern "C" int cuInit(unsigned) {{ return {status}; }}\n'
        f'extern "C" int cuDeviceGetCount(int *found) {{ *found = {count}; return {status}; }}\n'
    )
    library = compile_cpp("driver.so", [source], ["-fPIC", "-shared"])
    with pytest.raises(DeviceError, match=f"no CUDA device: the driver {message}"):
        require_gpu(str(library))


def test_a_gpu_is_seen_and_nothing_is_set_for_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONNECTIONS_VARIABLE, raising=False)
    require_gpu(str(host_library_path()))
    assert CONNECTIONS_VARIABLE not in os.environ
