"""STWeaver below a program serves as a replay with a trace's plan, or else profiles the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_runtime import OnlineMemory
from gpu_runtime._core import (
    DeviceMemory,
    LedgerMemory,
    LedgerStreams,
    ServingOnlineAllocator,
    SimulatedMemory,
)
from gpu_runtime.replaying.stweaver_replay import replay_stweaver
from instances.formats.recorded_trace import write_recorded_trace
from instances.traces.allocation_trace import AllocationTrace
from instances.traces.trace_requests import requests_of_trace
from planners import Budget, Plan, Problem
from planners.errors import GaplessError
from planners.files.formats import read_requests
from planners.model.online_result import OnlineDevice, OnlineTerms
from planners.model.request_sequence import NOWHERE, RequestAction, RequestSequence
from planners.registry import UnsupportedProblemError, register
from tests.gpu_runtime.replaying.random_training import random_training
from tests.repository import ROOT

PAGE = 2 << 20
PLENTY = 4 << 30


class ServedRun:
    """A recorded run that asks an online allocator, and tells it where it is."""

    def __init__(
        self, memory: OnlineMemory, requests: RequestSequence, device: DeviceMemory | None = None
    ) -> None:
        self.requests = requests
        self.memory = memory
        self.serving: ServingOnlineAllocator = memory.attach(
            SimulatedMemory(PAGE, PLENTY) if device is None else device
        )
        self.addresses: list[int] = []
        # The iteration of each request, from 1 on.
        self.iterations: list[int] = []

    def run(self) -> None:
        for _ in self.rows():
            pass
        self.serving.check()

    def rows(self) -> Iterator[int]:
        its, program = self.requests, self.memory.program
        assert program is not None
        begins = set(its.iteration_rows.tolist())
        last_phase = int(its.phase.max())
        iteration, phase = 0, NOWHERE
        names = ("", *its.module_names)
        for row in range(its.row_count):
            yield row
            if row in begins:
                iteration += 1
                program.begin_iteration()
            if its.phase[row] != phase or row in begins:
                phase = int(its.phase[row])
                program.begin_phase(phase, makes_state=phase == last_phase)
            name = names[int(its.module[row]) - NOWHERE] if len(its.module) else ""
            program.visits.enter(phase, program.module(name) if name else NOWHERE)
            request = int(its.request[row])
            if its.action[row] == RequestAction.ALLOCATE:
                size, stream = int(its.size[request]), int(its.stream[request])
                self.addresses.append(self.serving.allocate(size, stream))
                self.iterations.append(iteration)
            elif its.action[row] == RequestAction.FREE_COMPLETED:
                assert self.serving.free(self.addresses[request])


def traced(seed: int, *, steps: int = 4, dynamic: int = 20) -> AllocationTrace:
    return random_training(seed, modules=3, steps=steps, dynamic=dynamic)


@pytest.mark.parametrize("seed", range(4))
def test_with_the_plan_of_a_trace_it_serves_as_a_replay_does(seed: int, tmp_path: Path) -> None:
    trace = traced(seed)
    write_recorded_trace(trace, tmp_path / "run.npz")
    requests = requests_of_trace(trace)
    program = ServedRun(OnlineMemory("stweaver", trace=tmp_path / "run.npz"), requests)
    program.run()
    expected = replay_stweaver(requests, OnlineTerms(OnlineDevice.SIMULATED), "homosize", 3.0)
    moved = program.addresses[0] - int(expected.addresses[0])
    assert [address - moved for address in program.addresses] == expected.addresses.tolist()
    report = program.memory.report()
    assert report.reserved_bytes == expected.reserved_peak
    assert report.note.startswith("a static pool of ")
    assert f"plan       {report.note}" in str(report)


@pytest.mark.parametrize("dynamic", [0, 20])
@pytest.mark.parametrize("seed", range(5))
def test_it_profiles_two_iterations_of_the_run_and_plans_in_the_third(
    seed: int, dynamic: int
) -> None:
    requests = requests_of_trace(traced(seed, steps=5, dynamic=dynamic))
    program = ServedRun(OnlineMemory("stweaver"), requests)
    third = int(requests.iteration_rows[2])
    for row in program.rows():
        if row < third:
            assert program.memory.report().note == "profiles the first two iterations"
        if row == third + 1:
            program.memory.reset_peaks()
    program.serving.check()
    report = program.memory.report()
    assert report.note.startswith("a static pool of ")
    assert program.memory.program is not None
    pool = program.memory.program.pool
    later = [
        address for address, size, iteration in zip(
            program.addresses, requests.size.tolist(), program.iterations, strict=True
        )
        # Static sizes are whole MiB.
        if iteration > 2 and size % (1 << 20) == 0
    ]  # fmt: skip
    assert later
    # Some find a dynamic request in their place that lives longer than profiled.
    planned = [address in pool for address in later]
    assert sum(planned) >= (0.7 if dynamic else 1) * len(planned)
    # Weights were there before the plan, and have no place in the pool.
    assert not any(address in pool for address in program.addresses[:3])


# An optimizer makes its state in segments of its own. Else it would lie all over those of the
# iteration, and the pool beside them would be more than caching reserves.
@pytest.mark.parametrize("name", ["bert-base", "mobilenet-v2", "qwen2-moe-r-uneven"])
def test_a_plan_of_the_run_itself_reserves_less_than_caching(name: str) -> None:
    requests = read_requests(ROOT / "evaluation" / "studies" / "traces" / f"{name}.npz")
    reserved = []
    for static in (True, False):
        memory = OnlineMemory("stweaver", static=static)
        program = ServedRun(memory, requests, LedgerMemory(PAGE, 1 << 37, LedgerStreams.AT_ONCE))
        for row in program.rows():
            if row == requests.iteration_rows[2] + 1:
                memory.reset_peaks()
        reserved.append(memory.report().reserved_bytes)
        assert memory.program is not None
        assert bool(memory.program.pool) == static
    planned, caching = reserved
    assert max(requests.live_bytes(requests.size)) <= planned
    assert planned < caching
    assert memory.report().note.startswith("caching alone")


def test_a_device_that_refuses_the_pool_serves_on() -> None:
    requests = requests_of_trace(traced(1))
    device = SimulatedMemory(PAGE, PLENTY)
    program = ServedRun(OnlineMemory("stweaver"), requests, device)
    third = int(requests.iteration_rows[2])
    rows = program.rows()
    while next(rows) < third:
        pass
    device.fail_after(0, 1)
    with pytest.warns(RuntimeWarning, match="stweaver: no pool of "):
        next(rows)
    assert program.memory.program is not None
    assert not program.memory.program.pool
    for _ in rows:
        pass
    program.serving.check()


@pytest.mark.usefixtures("own_registry")
def test_a_planner_without_a_plan_leaves_the_run_to_caching() -> None:
    @register("refusing")
    def refuse(_problem: Problem, _budget: Budget) -> Plan:
        raise UnsupportedProblemError("not these")

    program = ServedRun(OnlineMemory("stweaver", planner="refusing"), requests_of_trace(traced(1)))
    program.run()
    assert program.memory.report().note.startswith("planned nothing: planner refusing")


def test_a_trace_without_modules_serves_a_program_that_has_some(tmp_path: Path) -> None:
    write_recorded_trace(random_training(1, dynamic=0), tmp_path / "run.npz")
    requests = requests_of_trace(random_training(1, dynamic=0, modules=3))
    program = ServedRun(OnlineMemory("stweaver", trace=tmp_path / "run.npz"), requests)
    program.run()
    assert program.memory.program is not None
    assert all(address in program.memory.program.pool for address in program.addresses)


def test_a_program_whose_iterations_differ_is_cached() -> None:
    requests = requests_of_trace(random_training(2, static=0, dynamic=8, modules=2))
    program = ServedRun(OnlineMemory("stweaver"), requests)
    program.run()
    assert program.memory.report().note.startswith("planned nothing")


def test_refuses_wrong_arguments() -> None:
    with pytest.raises(GaplessError, match="trace: stweaver profiles one, found gmlake"):
        OnlineMemory("gmlake", trace="run.npz")
    with pytest.raises(GaplessError, match="foresight: a replay knows a run ahead"):
        OnlineMemory("stweaver", foresight=True)
    with pytest.raises(GaplessError, match="parameter 'planer'; did you mean 'planner'"):
        OnlineMemory("stweaver", planer="homosize")
