"""How the fuzzer calls what gpu_runtime._core exports."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from random import Random
from typing import Any

from gpu_runtime import _core
from tests.fuzz import online_calls
from tests.fuzz.case import Case
from tests.fuzz.planners_calls import column, properties, read

PAGE = 1 << 16
BLOCK = _core.BLOCK_ALIGNMENT
SIZES = (0, 1, 511, 512, 513, 5000, PAGE // 2, PAGE, 3 * PAGE + 1)
STREAMS = (0, 1, 2, 1 << 63)
LABELS = (0, 0, 1, -1)

Allocator = _core.PlannedAllocator
Simulated = _core.SimulatedMemory


def plans(case: Case) -> tuple[list[Any], int]:
    """Return plans of a few kinds of step over one arena, and its bytes."""
    rng = case.rng
    arena = rng.choice((0, PAGE, 4 * PAGE, 9 * PAGE))
    made = []
    for _ in range(rng.choice((0, 1, 3, 5))):
        sizes = [rng.choice(SIZES[1:]) for _ in range(rng.randint(0, 8))]
        # As NumPy has handles of 64 bits, with a sign.
        streams = column(rng.choice((*STREAMS[:3], -(1 << 63))) for _ in sizes)
        offsets = column(drawn_offset(rng, size, arena) for size in sizes)
        kind = rng.choice((-1, 0, 1, 2))
        plan = case.call("StepPlan", _core.StepPlan, kind, streams, column(sizes), offsets)
        if plan is not None:
            case.call("StepPlan", read, plan)
            made.append(plan)
    if rng.random() < 0.5:
        made = case.call("with_hand_overs", _core.with_hand_overs, made, arena) or made
    return made, arena


def drawn_offset(rng: Random, size: int, arena: int) -> int:
    blocks = (arena - size) // BLOCK
    if blocks < 0 or rng.random() < 0.2:
        return _core.NO_PLACE
    return rng.choice((0, blocks, rng.randint(0, blocks))) * BLOCK


def device(case: Case) -> Any:
    capacity = case.rng.choice((0, 8, 64, 512, 512, 512)) * PAGE
    memory = case.call("SimulatedMemory", Simulated, PAGE, capacity)
    if memory is None:
        return None
    case.call("DeviceMemory", read_page_bytes, memory)
    if case.rng.random() < 0.5:
        case.call("SimulatedMemory.work_at_events", Simulated.work_at_events, memory)
    return memory


def read_page_bytes(memory: Any) -> Any:
    return _core.DeviceMemory.page_bytes.__get__(memory)  # type: ignore[attr-defined]


def allocator_over(case: Case, memory: Any) -> Any:
    if memory is None:
        return None
    is_plain, is_checked = case.rng.random() < 0.3, case.rng.random() < 0.3
    share = case.rng.choice((0.0, 0.01, float("inf"), -1.0, float("nan")))
    return case.call("PlannedAllocator", Allocator, memory, is_plain, is_checked, share)


def steps(case: Case) -> None:
    rng = case.rng
    # Refused or not, there is something to go on with.
    memory = device(case) or Simulated(PAGE, 512 * PAGE)
    allocator = allocator_over(case, memory) or Allocator(memory)
    addresses = [0]
    for _ in range(rng.randint(20, 80)):
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
        label = case.rng.choice(LABELS)
        end = case.call("begin_step", Allocator.begin_step, allocator, label)
    else:
        end = case.call("end_step", Allocator.end_step, allocator)
    if end is not None:
        case.call("StepEnd", read, end)


def plan(case: Case, _memory: Any, allocator: Any, _address: int) -> None:
    """Change the plans, mostly between steps, and begin a step that one may expect."""
    if case.rng.random() < 0.7:
        case.call("end_step", Allocator.end_step, allocator)
    case.call("adopt", Allocator.adopt, allocator, *plans(case))
    if case.rng.random() < 0.7:
        case.call("begin_step", Allocator.begin_step, allocator, case.rng.choice(LABELS))


def look(case: Case, _memory: Any, allocator: Any, _address: int) -> None:
    for mismatch in case.call("mismatches", Allocator.mismatches, allocator) or []:
        case.call("Mismatch", read, mismatch)
    for name in (*LOOKS, "give_back"):
        case.call(name, getattr(Allocator, name), allocator)
    for kind in case.call("kinds", Allocator.kinds, allocator) or []:
        case.call("StepKind", read, kind)
    case.call("PlannedAllocator", read, allocator)
    figures = case.call("figures", Allocator.figures, allocator)
    if figures is not None:
        case.call("Figures", read, figures)
    look_for_overwrites(case, allocator, case.rng.random() < 0.5)


def look_for_overwrites(case: Case, allocator: Any, everywhere: bool) -> None:
    found = case.call("take_overwrites", Allocator.take_overwrites, allocator, everywhere)
    for overwrite in found or []:
        case.call("Overwrite", read, overwrite)
        for tenant in (overwrite.before, overwrite.after):
            case.call("Tenant", read, tenant)


def overwrites(case: Case) -> None:
    """Write to free memory, where it is known to be mapped still."""
    memory = Simulated(PAGE, 64 * PAGE)
    allocator = Allocator(memory, case.rng.random() < 0.5, True)
    size = case.rng.choice(SIZES[1:])
    address = allocator.allocate(size, 0)
    allocator.free(address)
    ctypes.memset(address, 7, size)
    if case.rng.random() < 0.5:
        case.call("allocate", Allocator.allocate, allocator, size, 0)
    look_for_overwrites(case, allocator, True)
    Allocator.check(allocator)


def listen(case: Case, _memory: Any, allocator: Any, _address: int) -> None:
    """Listen with a call that asks for more, which may not be expected either."""

    def ask(mismatch: Any) -> None:
        read(mismatch)
        allocator.free(allocator.allocate(512, 7))

    def fail(_mismatch: Any) -> None:
        raise SystemExit

    listener = case.rng.choice((None, ask, fail, len))
    case.call("on_mismatch", Allocator.on_mismatch, allocator, listener)


def pause(case: Case, _memory: Any, allocator: Any, _address: int) -> None:
    rng = case.rng
    tag = rng.choice(("", "", "", "weights", "other"))  # requests with a tag are not planned
    case.call("set_tag", Allocator.set_tag, allocator, tag)
    which = rng.choice((None, None, "weights", ""))
    if rng.random() < 0.5:
        case.call("pause", Allocator.pause, allocator, which, rng.random() < 0.5)
    else:
        case.call("resume", Allocator.resume, allocator, which)
    case.call("paused_blocks", Allocator.paused_blocks, allocator)


def work(case: Case, memory: Any, _allocator: Any, address: int) -> None:
    rng = case.rng
    place = rng.choice(((), (address,), (address, rng.choice(SIZES))))
    case.call("submit", Simulated.submit, memory, rng.choice(STREAMS), *place)
    if rng.random() < 0.7:
        case.call("finish", Simulated.finish, memory, rng.choice(STREAMS))
    if rng.random() < 0.2:
        case.call("fail_after", Simulated.fail_after, memory, rng.randint(0, 9), rng.randint(0, 2))
    if rng.random() < 0.2:
        is_captured = rng.random() < 0.3
        case.call("set_captured", Simulated.set_captured, memory, rng.choice(STREAMS), is_captured)
    case.call("SimulatedMemory", read, memory)
    for wait in case.call("waits", waits_of, memory) or []:
        case.call("Wait", read, wait)


def waits_of(memory: Any) -> Any:
    return Simulated.waits.__get__(memory)  # type: ignore[attr-defined]


LOOKS = (
    "to_plan", "reset_peaks", "mismatch_counts", "check",
)  # fmt: skip
STEPS: tuple[Callable[[Case, Any, Any, int], Any], ...] = (
    *[allocate] * 8, *[free] * 4, use_on, use_on, step, step, plan, plan, look, listen, work,
    pause,
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
                asked.kinds()
                asked.give_back()

    case.together("allocate", serve)


def cuda(case: Case) -> None:
    """Ask for a device; where there is no driver, that is what it says."""
    memory = case.call("CudaMemory", _core.CudaMemory, case.rng.randint(-1, 2))
    if memory is not None:
        case.call("CudaMemory.capability", read, memory)


def installed(case: Case) -> None:
    allocator = allocator_over(case, device(case))
    if allocator is not None:
        case.call("install", _core.install, case.rng.randint(0, 63), allocator)
    case.call("serving_table", _core.serving_table)


def of(kind: type) -> tuple[str, ...]:
    return tuple(f"{kind.__name__}.{name}" for name in properties(kind))


# What each call reaches; a name that nobody lists here or below fails a test.
CALLS: dict[Callable[[Case], None], tuple[str, ...]] = {
    steps: (
        "DeviceMemory", *of(_core.DeviceMemory), "SimulatedMemory", "SimulatedMemory.submit",
        "SimulatedMemory.finish", "SimulatedMemory.work_at_events",
        "SimulatedMemory.set_captured", "SimulatedMemory.fail_after",
        *of(Simulated), "Wait", *of(_core.Wait), "BLOCK_ALIGNMENT", "BETWEEN", "NO_PLACE",
        "OUTLIVES", "StepPlan", *of(_core.StepPlan), "with_hand_overs", "StepKind",
        *of(_core.StepKind), "MismatchKind",
        "Mismatch", *of(_core.Mismatch), "StepEnd", *of(_core.StepEnd), "Figures",
        *of(_core.Figures), "PlannedAllocator", *of(Allocator), "PlannedAllocator.kinds",
        "PlannedAllocator.begin_step", "PlannedAllocator.end_step", "PlannedAllocator.adopt",
        *(f"PlannedAllocator.{name}" for name in LOOKS),
        "PlannedAllocator.figures", "PlannedAllocator.mismatches", "PlannedAllocator.on_mismatch",
        "PlannedAllocator.set_tag", "PlannedAllocator.pause", "PlannedAllocator.resume",
        "PlannedAllocator.paused_blocks",
    ),
    overwrites: (
        "PlannedAllocator.take_overwrites", "Overwrite", *of(_core.Overwrite), "Tenant",
        *of(_core.Tenant),
    ),
    cuda: ("CudaMemory", *of(_core.CudaMemory)),
    installed: ("install", "serving_table"),
    **online_calls.CALLS,
}  # fmt: skip

# What is not called, and why.
# A device trusts who maps and unmaps, and so does what lies over it in a replay.
TRUSTING = (_core.DeviceMemory, _core.ReplayedStreams, _core.BlockStamps)
LEFT_OUT = {
    **{
        f"{kind.__name__}.{name}": "a device trusts its allocator"
        for kind in TRUSTING
        for name, value in vars(kind).items()
        if callable(value) and not name.startswith("_")
    },
    "ReplayedStreams": "over a device that trusts its allocator",
    "BlockStamps": "over a device that trusts its allocator",
    "Overwritten": "stamps alone return it",
    **dict.fromkeys(of(_core.Overwritten), "stamps alone return it"),
    "CudaMemory.make_stream": "without a driver there is no such device",
    "CudaMemory.load_checks": "an image goes to the driver as it is, and only ours are given to it",
}
