"""How the fuzzer calls what gpu_runtime._core exports."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from gpu_runtime import _core
from tests.fuzz import online_calls
from tests.fuzz.case import Case
from tests.fuzz.planners_calls import column, properties, read

PAGE = 1 << 16
BLOCK = _core.BLOCK_ALIGNMENT
SIZES = (0, 1, 511, 512, 513, 5000, PAGE // 2, PAGE, 3 * PAGE + 1)
STREAMS = (0, 1, 2, 1 << 63)
ROLES = (_core.FIRST_ROLE, _core.FIRST_ROLE + 1)
LABELS = (0, 0, 1, _core.BETWEEN_STEPS)

Allocator = _core.PlannedAllocator
Book = _core.Book
Record = _core.ProgramRecord
Simulated = _core.SimulatedMemory


def kind_columns(rng: Random, arena: int) -> list[Any]:
    """Return the columns of a right plan of a kind of step."""
    count = rng.randint(0, 8)
    least = [rng.choice(SIZES[1:]) for _ in range(count)]
    most = [size + rng.choice((0, 0, 1, PAGE)) for size in least]
    return [
        # As NumPy has handles of 64 bits, with a sign.
        column(rng.choice((*STREAMS[:3], -(1 << 63), *ROLES)) for _ in range(count)),
        column(least),
        column(most),
        *(column(drawn_offset(rng, size, arena) for size in most) for _ in range(2)),
    ]


def drawn_offset(rng: Random, size: int, arena: int) -> int:
    blocks = (arena - size) // BLOCK
    if blocks < 0 or rng.random() < 0.2:
        return _core.NO_PLACE
    return rng.choice((0, blocks, rng.randint(0, blocks))) * BLOCK


def kinds(case: Case) -> tuple[list[Any], int]:
    """Return plans of a few kinds of step over one arena, and its bytes."""
    rng = case.rng
    arena = rng.choice((0, PAGE, 4 * PAGE, 9 * PAGE))
    made = []
    for _ in range(rng.choice((0, 1, 3, 5))):
        plan = case.call("KindPlan", _core.KindPlan, rng.choice(LABELS), *kind_columns(rng, arena))
        if plan is not None:
            case.call("KindPlan", read, plan)
            made.append(plan)
    if rng.random() < 0.5:
        made = case.call("with_hand_overs", _core.with_hand_overs, made, arena) or made
    return made, arena


def books(case: Case) -> None:
    """Ask a book, and what books are made from; neither has memory."""
    rng = case.rng
    records(case)
    book = case.call("Book", Book, *kinds(case))
    if book is None:
        return
    case.call("Book", read, book)
    for _ in range(rng.randint(0, 4)):
        case.call("Book.begin_step", Book.begin_step, book, rng.choice(LABELS))
        for _ in range(rng.randint(0, 12)):
            stream, size = rng.choice((*STREAMS, *ROLES)), rng.choice(SIZES)
            place = case.call("Book.request", Book.request, book, stream, size)
            if place is not None:
                case.call("Place", read, place)
        end = case.call("Book.end_step", Book.end_step, book)
        if end is not None:
            case.call("StepEnd", read, end)


def records(case: Case) -> None:
    """Read the logs of an allocator, and go on with the kinds that were learnt."""
    rng = case.rng
    record = case.call("ProgramRecord", Record, []) or Record([])
    allocator = Allocator(Simulated(PAGE, 512 * PAGE))
    addresses: list[int] = []
    logs = []
    for _ in range(rng.randint(1, 12)):
        allocator.begin_step(rng.choice((0, 0, 1)))
        for size in SIZES[1 : rng.randint(2, len(SIZES))]:
            addresses.append(allocator.allocate(size, rng.choice(STREAMS[:3])))
            if rng.random() < 0.7:
                allocator.free(addresses.pop(rng.randrange(len(addresses))))
        allocator.end_step()
        rows = allocator.take_log() if rng.random() < 0.9 else column(SIZES)
        logs.append(rows)
        numbers = [rng.randint(-1, 3) for _ in range(rng.randint(0, 3))]
        case.call("ProgramRecord.add", Record.add, record, rows, numbers)
        case.call("ProgramRecord.saw", Record.saw, record, numbers)
        case.call("ProgramRecord.stays", Record.stays, record, column(range(9)))
        case.call("ProgramRecord", read, record)
        case.call("ProgramRecord.live_bytes", Record.live_bytes, record)
        for kind in record.kinds():
            case.call("KindRecord", read, kind)
        if rng.random() < 0.2:
            case.call("ProgramRecord.lose_track", Record.lose_track, record)
        if rng.random() < 0.2:
            record = case.call("ProgramRecord", Record, record.kinds()) or record
    trials(case, logs)
    columns = (column(SIZES[: rng.choice((2, 2, 3))]) for _ in range(6))
    flags = np.ones(2, dtype=np.uint8)
    later = {rng.randint(0, 3): column(SIZES[:2])}
    kind = case.call("KindRecord", _core.KindRecord, 3, 0, *columns, flags, flags, later, 2, 1)
    if kind is not None:
        case.call("ProgramRecord", Record, [kind])
    made = case.call("Book.with_hand_overs", Book.with_hand_overs, *kinds(case))
    if made is not None:
        case.call("adopt_book", Allocator.adopt_book, allocator, made)
        case.call("Book", read, made)
        case.call("Book.request", Book.request, made, 0, BLOCK)


def trials(case: Case, logs: list[Any]) -> None:
    """Try a book, or none, on the logs of some steps."""
    rng = case.rng
    peaks = (0, 512 * PAGE, 512 * PAGE, 512 * PAGE, -1, 1 << 62)
    live, peak = rng.choice((0, 5 * PAGE, -PAGE, 1 << 62)), rng.choice(peaks)
    made = (rng.choice((0, PAGE, PAGE, PAGE)), rng.random() < 0.3, live, peak)
    terms = case.call("TrialTerms", _core.TrialTerms, *made)
    if terms is None:
        return
    case.call("TrialTerms", read, terms)
    book = case.call("Book", Book, *kinds(case)) if rng.random() < 0.7 else None
    row = [rng.choice((0, 512, -1)), rng.choice((512, -512, PAGE)), rng.choice((-1, 0, 3))]
    guests = np.array([row] * rng.randint(0, 2), dtype=np.int64).reshape(-1, 3)
    outcome = case.call("try_book", _core.try_book, logs, terms, book, guests)
    if outcome is not None:
        case.call("TrialOutcome", read, outcome)


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
    return case.call("PlannedAllocator", Allocator, memory, is_plain, is_checked)


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


def book(case: Case, _memory: Any, allocator: Any, _address: int) -> None:
    """Change the book, mostly between steps, and begin one that it may know."""
    if case.rng.random() < 0.7:
        case.call("end_step", Allocator.end_step, allocator)
    if case.rng.random() < 0.2:
        case.call("drop_book", Allocator.drop_book, allocator)
        return
    case.call("adopt_book", Allocator.adopt_book, allocator, *kinds(case))
    if case.rng.random() < 0.7:
        case.call("begin_step", Allocator.begin_step, allocator, case.rng.choice(LABELS))


def look(case: Case, _memory: Any, allocator: Any, _address: int) -> None:
    for name in (*LOOKS, "give_back"):
        case.call(name, getattr(Allocator, name), allocator)
    case.call("PlannedAllocator", read, allocator)
    figures = case.call("figures", Allocator.figures, allocator)
    if figures is not None:
        case.call("Figures", read, figures)
    for mismatch in case.call("mismatches", Allocator.mismatches, allocator) or []:
        case.call("Mismatch", read, mismatch)
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
    "take_log", "drop_log", "blocks_in_arena", "reset_peaks", "mismatch_counts", "check",
)  # fmt: skip
STEPS: tuple[Callable[[Case, Any, Any, int], Any], ...] = (
    *[allocate] * 8, *[free] * 4, use_on, use_on, step, step, book, book, look, listen, work,
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
                asked.take_log()
                asked.blocks_in_arena()
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
        *of(Simulated), "Wait", *of(_core.Wait), "BLOCK_ALIGNMENT", "NO_PLACE", "BETWEEN_STEPS",
        "FIRST_ROLE", "KindPlan", *of(_core.KindPlan), "with_hand_overs", "MismatchKind",
        "Mismatch", *of(_core.Mismatch), "StepEnd", *of(_core.StepEnd), "Figures",
        *of(_core.Figures), "LogKind", "PlannedAllocator", *of(Allocator),
        "PlannedAllocator.begin_step", "PlannedAllocator.end_step", "PlannedAllocator.adopt_book",
        "PlannedAllocator.drop_book", *(f"PlannedAllocator.{name}" for name in LOOKS),
        "PlannedAllocator.figures", "PlannedAllocator.mismatches", "PlannedAllocator.on_mismatch",
        "PlannedAllocator.set_tag", "PlannedAllocator.pause", "PlannedAllocator.resume",
        "PlannedAllocator.paused_blocks",
    ),
    books: (
        "Book", *of(Book), "Book.begin_step", "Book.request", "Book.end_step",
        "Book.with_hand_overs",
        "Place", *of(_core.Place), "ProgramRecord", *of(Record), "ProgramRecord.add",
        "ProgramRecord.saw", "ProgramRecord.stays", "ProgramRecord.live_bytes",
        "ProgramRecord.kinds", "ProgramRecord.lose_track", "KindRecord", *of(_core.KindRecord),
        "MOST_KINDS", "REPEATED", "TrialTerms", *of(_core.TrialTerms), "try_book",
        "TrialOutcome", *of(_core.TrialOutcome),
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
