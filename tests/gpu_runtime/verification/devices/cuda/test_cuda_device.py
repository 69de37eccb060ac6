"""The CUDA device over a driver that runs kernels on the host, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL
from random import Random

import numpy as np
import pytest

from gpu_runtime.verification.devices.cuda import cuda_device
from gpu_runtime.verification.devices.cuda.cuda_device import CudaDevice
from gpu_runtime.verification.devices.cuda.work_table import LEAST_CHUNK_BYTES
from gpu_runtime.verification.devices.simulated_device import SimulatedDevice
from gpu_runtime.verification.injection import inject
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
from planners.testing.random_problems import random_problem
from tests.definitions import descendants
from tests.gpu_runtime.core.driver_stand_in import DRIVER
from tests.gpu_runtime.verification.devices.cuda.cuda_on_host import on_host
from tests.gpu_runtime.verification.devices.cuda.host_kernel import host_library


def graph_problem(seed: int) -> Problem:
    return random_problem(Random(seed), Safety.GRAPH, (1, 12), features=frozenset({"zero"}))


def graph_of(problem: Problem) -> Graph:
    assert problem.graph is not None
    return problem.graph


def right_plans_pass(_host: CDLL) -> None:
    for seed in range(40):
        problem = graph_problem(seed)
        plan = place(problem, "size", "first")
        found = verify(problem, plan.offsets, CudaDevice, VerificationRequest(trials=3, seed=seed))
        assert found.passed
        assert found.figures.arena_bytes == plan.peak
        assert found.figures.reserved_bytes == max(-(-plan.peak // 512), 1) * 512


def what_one_stream_corrupts_is_found_with_its_writer(_host: CDLL) -> None:
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
        request = VerificationRequest(trials=3, seed=seed, injections=tuple(injections))
        found, simulated = (
            verify(problem, plan.offsets, device, request)
            for device in (CudaDevice, SimulatedDevice)
        )
        assert found.corruptions == simulated.corruptions
        assert all(found.caught(injection) for injection in injections)
        assert found.false_alarms() == []
        injected += 2
    assert injected > 40


def streams_and_events_order_nodes_as_the_graph_does_and_no_more(host: CDLL) -> None:
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


def a_held_node_leaves_room_for_those_that_are_to_pass_it(host: CDLL) -> None:
    cuda_device.HELD_BLOCKS = 2
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


def precedes_by_submission(host: CDLL, program: StampCheckProgram) -> list[set[tuple[int, int]]]:
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


def an_arena_that_does_not_fit_is_one_line(host: CDLL) -> None:
    host.host_set_memory(4096)
    problem = Problem([5000], [0], [1])
    with pytest.raises(DeviceError, match=r"cuMemAlloc of 5000 bytes with 4096 free: CUDA_E"):
        CudaDevice(make_stamp_check_program(problem), full_layout(problem, np.array([0])))


CHECKS: dict[str, Callable[[CDLL], None]] = {
    check.__name__: check
    for check in (
        right_plans_pass,
        what_one_stream_corrupts_is_found_with_its_writer,
        streams_and_events_order_nodes_as_the_graph_does_and_no_more,
        a_held_node_leaves_room_for_those_that_are_to_pass_it,
        an_arena_that_does_not_fit_is_one_line,
    )
}


def check_here(name: str) -> None:
    """Make a check in a process whose driver is that of the host."""
    host = host_library(DRIVER)
    CHECKS[name](host)
    assert host.host_held() == 0, "everything that a device takes is given back"


@pytest.mark.parametrize("name", CHECKS)
def test_on_the_host(name: str) -> None:
    assert on_host(f"from {__name__} import check_here; check_here({name!r})") == ""


@pytest.mark.parametrize(
    ("refusal", "message"),
    [("host_refuse(100)", "cuInit: CUDA_ERROR_NO_DEVICE (100)"), ("host_hide()", "no CUDA device")],
)
def test_a_driver_without_a_gpu_is_told(refusal: str, message: str) -> None:
    printed = on_host(
        f"""
        import ctypes
        from gpu_runtime.verification.devices.cuda.context import open_context
        ctypes.CDLL("{DRIVER}").{refusal}
        open_context()
        """
    )
    assert printed.splitlines()[-1].startswith(f"planners.errors.DeviceError: {message}")
