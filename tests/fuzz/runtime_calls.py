"""How the fuzzer calls what gpu_runtime._core exports."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from gpu_runtime import _core
from tests.fuzz.case import Case
from tests.fuzz.planners_calls import column, properties, read

PAGE = 1 << 16
BLOCK = _core.BLOCK_ALIGNMENT
SIZES = (0, 1, 511, 512, 513, 5000, PAGE // 2, PAGE, 3 * PAGE + 1)
STREAMS = (0, 1, 2, 1 << 63)

Allocator = _core.PlannedAllocator
Simulated = _core.SimulatedMemory


def stream_columns(rng: Random, begin: int) -> tuple[list[Any], int]:
    """Return the columns of a right plan of a stream, and where its part of the arena ends."""
    count = rng.randint(0, 8)
    size = [rng.choice(SIZES[1:]) for _ in range(count)]
    freed_before = [rng.choice((None, *range(count))) for _ in range(count)]
    offset: list[int] = []
    end = begin
    for request in range(count):
        if rng.random() < 0.2:
            offset.append(_core.ESCAPES)
            continue
        alike = [
            other for other in range(request)
            if offset[other] >= 0 and size[other] == size[request]
            and freed_before[other] == other + 1 == request and freed_before[request] is None
        ]  # fmt: skip
        offset.append(offset[alike[0]] if alike else end)
        end += 0 if alike else -(-size[request] // BLOCK) * BLOCK
    lists: list[list[int]] = [[] for _ in range(count)]
    for request, before in enumerate(freed_before):
        if before is not None:
            lists[before].append(request)
    return [
        column(size),
        column(offset),
        column(np.cumsum([0, *map(len, lists)]), np.int32),
        column([request for freed in lists for request in freed], np.int32),
    ], end


def plans(case: Case) -> tuple[list[Any], int]:
    """Return plans of a few streams that share an arena, and its bytes."""
    end, made = 0, []
    for stream in case.rng.sample(STREAMS, case.rng.randint(0, 3)):
        columns, end = stream_columns(case.rng, end)
        plan = case.call("StreamPlan", _core.StreamPlan, stream, *columns)
        made += [] if plan is None else [plan]
    return made, end


def device(case: Case) -> Any:
    capacity = case.rng.choice((0, 8 * PAGE, 64 * PAGE))
    memory = case.call("SimulatedMemory", Simulated, PAGE, capacity)
    if memory is None:
        return None
    case.call("DeviceMemory", read_page_bytes, memory)
    return memory


def read_page_bytes(memory: Any) -> Any:
    return _core.DeviceMemory.page_bytes.__get__(memory)  # type: ignore[attr-defined]


def steps(case: Case) -> None:
    rng = case.rng
    memory = device(case)
    allocator = None if memory is None else case.call("PlannedAllocator", Allocator, memory)
    if allocator is None:
        return
    addresses = [0]
    for _ in range(rng.randint(5, 25)):
        kind = rng.choice(STEPS)
        found = kind(case, memory, allocator, rng.choice(addresses))
        if isinstance(found, int):
            addresses.append(found)
        # Whatever was asked, the heap keeps its rules.
        Allocator.check(allocator)
    if rng.random() < 0.1:
        work_together(case, memory, allocator)


def allocate(case: Case, _memory: Any, allocator: Any, _address: int) -> Any:
    size, stream = case.rng.choice(SIZES), case.rng.choice(STREAMS)
    return case.call("allocate", Allocator.allocate, allocator, size, stream)


def free(case: Case, _memory: Any, allocator: Any, address: int) -> None:
    case.call("free", Allocator.free, allocator, address)


def use_on(case: Case, _memory: Any, allocator: Any, address: int) -> None:
    case.call("use_on", Allocator.use_on, allocator, address, case.rng.choice(STREAMS))


def step(case: Case, _memory: Any, allocator: Any, _address: int) -> None:
    if case.rng.random() < 0.5:
        mode = case.rng.choice(list(_core.StepMode))
        case.call("begin_step", Allocator.begin_step, allocator, mode)
        return
    counts = case.call("end_step", Allocator.end_step, allocator)
    if counts is not None:
        case.call("StepCounts", read, counts)


def plan(case: Case, _memory: Any, allocator: Any, _address: int) -> None:
    if case.rng.random() < 0.3:
        case.call("drop_plan", Allocator.drop_plan, allocator)
        return
    streams, arena = plans(case)
    case.call("adopt_plan", Allocator.adopt_plan, allocator, streams, arena)


def look(case: Case, _memory: Any, allocator: Any, _address: int) -> None:
    for name in ("give_back", "take_log", "reset_peaks", "mismatch_counts", "check"):
        case.call(name, getattr(Allocator, name), allocator)
    figures = case.call("figures", Allocator.figures, allocator)
    if figures is not None:
        case.call("Figures", read, figures)
    for mismatch in case.call("mismatches", Allocator.mismatches, allocator) or []:
        case.call("Mismatch", read, mismatch)


def listen(case: Case, _memory: Any, allocator: Any, _address: int) -> None:
    """Listen with a call that asks for more, which may not be expected either."""

    def ask(mismatch: Any) -> None:
        read(mismatch)
        allocator.free(allocator.allocate(512, 7))

    def fail(_mismatch: Any) -> None:
        raise SystemExit

    listener = case.rng.choice((None, ask, fail, len))
    case.call("on_mismatch", Allocator.on_mismatch, allocator, listener)


def work(case: Case, memory: Any, _allocator: Any, _address: int) -> None:
    rng = case.rng
    case.call("submit", Simulated.submit, memory, rng.choice(STREAMS))
    if rng.random() < 0.7:
        case.call("finish", Simulated.finish, memory, rng.choice(STREAMS))
    if rng.random() < 0.2:
        case.call("fail_after", Simulated.fail_after, memory, rng.randint(0, 9), rng.randint(0, 2))
    case.call("SimulatedMemory", read, memory)
    for wait in case.call("waits", waits_of, memory) or []:
        case.call("Wait", read, wait)


def waits_of(memory: Any) -> Any:
    return Simulated.waits.__get__(memory)  # type: ignore[attr-defined]


STEPS: tuple[Callable[[Case, Any, Any, int], Any], ...] = (
    allocate, allocate, allocate, free, free, use_on, step, step, plan, look, listen, work,
)  # fmt: skip


def work_together(case: Case, memory: Any, allocator: Any) -> None:
    """Allocate and free on one device from several threads, while it is given work."""
    other = _core.PlannedAllocator(memory)

    def serve() -> None:
        for size in SIZES * 4:
            for asked in (allocator, other):
                address = asked.allocate(size, size % 3)
                asked.use_on(address, 5)
                memory.submit(size % 3)
                memory.finish(5)
                read(memory)
                asked.free(address)
                asked.figures()
                asked.take_log()

    case.together("allocate", serve)


def cuda(case: Case) -> None:
    """Ask for a device; where there is no driver, that is what it says."""
    case.call("CudaMemory", _core.CudaMemory, case.rng.randint(-1, 2))


def installed(case: Case) -> None:
    memory = device(case)
    allocator = None if memory is None else case.call("PlannedAllocator", Allocator, memory)
    if allocator is not None:
        case.call("install", _core.install, case.rng.randint(0, 63), allocator)


def of(kind: type) -> tuple[str, ...]:
    return tuple(f"{kind.__name__}.{name}" for name in properties(kind))


# What each call reaches; a name that nobody lists fails a test.
CALLS: dict[Callable[[Case], None], tuple[str, ...]] = {
    steps: (
        "DeviceMemory", *of(_core.DeviceMemory), "SimulatedMemory", "SimulatedMemory.submit",
        "SimulatedMemory.finish", "SimulatedMemory.fail_after", *of(Simulated), "Wait",
        *of(_core.Wait), "StreamPlan", "ESCAPES", "BLOCK_ALIGNMENT", "MismatchKind", "Mismatch",
        *of(_core.Mismatch), "StepCounts", *of(_core.StepCounts), "Figures", *of(_core.Figures),
        "StepMode", "LogKind", "PlannedAllocator", "PlannedAllocator.allocate",
        "PlannedAllocator.free", "PlannedAllocator.use_on", "PlannedAllocator.begin_step",
        "PlannedAllocator.end_step", "PlannedAllocator.drop_plan", "PlannedAllocator.adopt_plan",
        "PlannedAllocator.give_back", "PlannedAllocator.take_log", "PlannedAllocator.figures",
        "PlannedAllocator.reset_peaks", "PlannedAllocator.mismatches",
        "PlannedAllocator.mismatch_counts", "PlannedAllocator.on_mismatch",
        "PlannedAllocator.check",
    ),
    cuda: ("CudaMemory",),
    installed: ("install",),
}  # fmt: skip
