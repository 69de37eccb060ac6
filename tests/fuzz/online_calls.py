"""How the fuzzer calls the online allocators of gpu_runtime._core, and their replay."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from gpu_runtime import _core
from tests.fuzz.case import Case
from tests.fuzz.planners_calls import column, properties, read

PAGE = 1 << 21
SIZES = (0, 1, 512, 513, 5000, 1 << 20, PAGE, 3 * PAGE + 1, 11 * PAGE)
STREAMS = (0, 1, 2, 1 << 62)
ADDRESSES = (0, PAGE, 1 << 40, (1 << 64) - PAGE)
REPLAYS: tuple[tuple[str, Any], ...] = (
    ("OnlineReplay", _core.OnlineReplay),
    ("PlannedReplay", _core.PlannedReplay),
)

Online = _core.OnlineAllocator
Serving = _core.ServingAllocator
ServingOnline = _core.ServingOnlineAllocator
Planned = _core.PlannedAllocator
Stweaver = _core.Stweaver
Visits = _core.ModuleVisits
Ledger = _core.LedgerMemory


def ledger(case: Case) -> Any:
    rng = case.rng
    streams = rng.choice(list(_core.LedgerStreams))
    capacity = rng.choice((0, 20, 500, 1 << 12)) * PAGE
    memory = case.call("LedgerMemory", Ledger, PAGE, capacity, streams)
    if memory is None:
        return Ledger(PAGE, 500 * PAGE)
    for name in ("dictate_plain", "dictate_ranges"):
        if rng.random() < 0.4:
            addresses = rng.sample(ADDRESSES, 2)
            case.call(f"LedgerMemory.{name}", getattr(Ledger, name), memory, addresses)
    return memory


def online_allocator(case: Case, memory: Any) -> Any:
    """Return an online allocator, or None where its settings were refused."""
    rng = case.rng
    limits = rng.choice((PAGE, 20 * PAGE, (1 << 64) - 1))
    settings = case.call(
        "PytorchSettings",
        _core.PytorchSettings,
        limits,
        rng.choice((0, 20 << 20)),
        [rng.choice((0, 1, 4)) for _ in range(16)],
        rng.choice((0.0, 0.5, 1.0)),
    )
    rules = case.call(
        "GmlakeRules", _core.GmlakeRules, PAGE, limits, rng.random() < 0.5, rng.randint(0, 9)
    )
    pool = case.call("VpmmSettings", _core.VpmmSettings, PAGE, rng.randint(0, 30), 1 << 36)
    if settings is not None:
        size = rng.choice(SIZES)
        case.call("PytorchSettings.rounded", _core.PytorchSettings.rounded, settings, size)
        case.call("PytorchSettings.segment_for", _core.PytorchSettings.segment_for, settings, size)
    name, made, argument = rng.choice(
        (
            ("PytorchCaching", _core.PytorchCaching, settings),
            ("PytorchExpandable", _core.PytorchExpandable, settings),
            ("Gmlake", _core.Gmlake, rules),
            ("Vpmm", _core.Vpmm, pool),
            ("Stweaver", Stweaver, None),
        )
    )
    allocator = case.call(name, made, memory, *([] if argument is None else [argument]))
    if isinstance(allocator, Stweaver):
        adopt(case, allocator)
    return allocator


def adopt(case: Case, allocator: Any) -> None:
    profile = stweaver_profile(case)
    if profile is not None:
        read(profile)
        case.call("Stweaver.adopt", Stweaver.adopt, allocator, profile)
    case.call("Stweaver.reserve_pool", Stweaver.reserve_pool, allocator)


def stweaver_profile(case: Case) -> Any:
    """Return a profile for the sizes of requests, or None where it was refused."""
    rng = case.rng
    places = [(rng.randrange(3), size, 512 * rng.randrange(9)) for size in SIZES[1:6]]
    spaces = [(visit, 0, visit % 2) for visit in range(3)]
    intervals = [(0, 8192), (PAGE, 3 * PAGE), (512, 1024)]
    rows = [np.array(each, dtype=np.int64) for each in (places, spaces, intervals)]
    return case.call(
        "StweaverProfile", _core.StweaverProfile,
        4 * PAGE, rng.choice(STREAMS), 3, rows[0], rows[1], [0, 2, 3], rows[2],
    )  # fmt: skip


def online_allocators(case: Case) -> None:
    rng = case.rng
    memory = ledger(case) if rng.random() < 0.5 else _core.SimulatedMemory(PAGE, 200 * PAGE)
    counting = case.call("CountingMemory", _core.CountingMemory, memory)
    log = case.call("SegmentLog", _core.SegmentLog, counting or memory)
    allocator = online_allocator(case, log or memory)
    if allocator is None:
        return
    if isinstance(allocator, _core.Vpmm):
        case.call("Vpmm.keep_stages", _core.Vpmm.keep_stages, allocator)
    addresses = [0]
    for _ in range(rng.randint(10, 60)):
        found = rng.choice(TURNS)(case, allocator, rng.choice(addresses))
        if isinstance(found, int) and not isinstance(found, bool):
            addresses.append(found)
        if isinstance(memory, Ledger) and rng.random() < 0.1:
            case.call("LedgerMemory.finish", Ledger.finish, memory, rng.choice(STREAMS))
        if isinstance(memory, _core.SimulatedMemory) and rng.random() < 0.02:
            stream = rng.choice(STREAMS[1:])
            case.call("SimulatedMemory.destroy_stream", type(memory).destroy_stream, memory, stream)
        # Whatever was asked, the allocator keeps its rules.
        Online.check(allocator)
    look(case, allocator)
    for made in (memory, counting, log):
        read(made)
    if counting is not None:
        read(counting.calls)
    if log is not None:
        case.call("SegmentLog.rows", _core.SegmentLog.rows, log)


def servings(case: Case) -> None:
    """Ask an online allocator as PyTorch's allocator does."""
    rng = case.rng
    counting = _core.CountingMemory(_core.SimulatedMemory(PAGE, 200 * PAGE), rng.random() < 0.5)
    asked = online_allocator(case, counting)
    if asked is None:
        return
    allocator = case.call("ServingOnlineAllocator", ServingOnline, asked, counting)
    if allocator is None:
        return
    addresses = [0]
    for _ in range(rng.randint(5, 30)):
        address, stream = rng.choice(addresses), rng.choice(STREAMS)
        size = rng.choice(SIZES)
        made = case.call("ServingAllocator.allocate", Serving.allocate, allocator, size, stream)
        addresses += [] if made is None else [made]
        case.call("ServingAllocator.use_on", Serving.use_on, allocator, address, stream)
        if rng.random() < 0.6:
            case.call("ServingAllocator.free", Serving.free, allocator, address)
        if rng.random() < 0.1:
            case.call("ServingAllocator.give_back", Serving.give_back, allocator)
            case.call(
                "ServingOnlineAllocator.reset_peaks",
                ServingOnline.reset_peaks,
                allocator,
            )
        case.call("ServingOnlineAllocator.enter", ServingOnline.enter, allocator, rng.randrange(4))
        case.call(
            "ServingOnlineAllocator.begin_iteration", ServingOnline.begin_iteration, allocator
        )
        if isinstance(asked, Stweaver):
            beneath(case, asked, allocator)
        ServingOnline.check(allocator)
    read(ServingOnline.figures(allocator))
    ServingOnline.own_figures(allocator)
    read(ServingOnline.calls(allocator))
    read(ServingOnline.nanoseconds(allocator))
    del allocator
    # It goes on by itself.
    case.call("OnlineAllocator.allocate", Online.allocate, asked, PAGE, 0)
    Online.check(asked)


def beneath(case: Case, asked: Any, allocator: Any) -> None:
    case.call("Stweaver.record_beneath", Stweaver.record_beneath, asked, allocator, True)
    case.call("Stweaver.keep_apart_beneath", Stweaver.keep_apart_beneath, asked, allocator, False)
    visit_modules(case, allocator)
    profile = stweaver_profile(case)
    if profile is not None:
        case.call("Stweaver.adopt_for_less", Stweaver.adopt_for_less, asked, allocator, profile)
    read(asked)
    read(asked.counts)


def visit_modules(case: Case, allocator: Any) -> None:
    visits = case.call("ModuleVisits", Visits, allocator)
    if visits is None:
        return
    case.call("ModuleVisits.add", Visits.add, visits, -1, 1)
    case.call("ModuleVisits.renumber", Visits.renumber, visits, 2, [1])
    case.call("ModuleVisits.enter", Visits.enter, visits, 0, 0)
    case.call("ModuleVisits.begin_phase", Visits.begin_phase, visits, 1)
    case.call("ModuleVisits.begin_forward", Visits.begin_forward, visits, 0)
    case.call("ModuleVisits.end_forward", Visits.end_forward, visits)
    case.call("ModuleVisits.begin_backward", Visits.begin_backward, visits, 0)
    case.call("ModuleVisits.end_backward", Visits.end_backward, visits, 0)
    case.call("ModuleVisits.leave_all", Visits.leave_all, visits)
    read(visits)


def allocate(case: Case, allocator: Any, _address: int) -> Any:
    size, stream = case.rng.choice(SIZES), case.rng.choice(STREAMS)
    return case.call("OnlineAllocator.allocate", Online.allocate, allocator, size, stream)


def free(case: Case, allocator: Any, address: int) -> None:
    case.call("OnlineAllocator.free", Online.free, allocator, address)


def use_on(case: Case, allocator: Any, address: int) -> None:
    stream = case.rng.choice(STREAMS)
    case.call("OnlineAllocator.use_on", Online.use_on, allocator, address, stream)


def look(case: Case, allocator: Any, _address: int = 0) -> None:
    read(Online.figures(allocator))
    for segment in Online.segments(allocator):
        read(segment)
        for block in segment.blocks:
            read(block)
    if isinstance(allocator, _core.Gmlake):
        read(allocator)
        read(case.call("Gmlake.states", _core.Gmlake.states, allocator))
    if isinstance(allocator, _core.Vpmm):
        regions = case.call("Vpmm.regions", _core.Vpmm.regions, allocator) or []
        for region in (*regions, *(one for stage in allocator.stages() for one in stage)):
            read(region)


def rarely(case: Case, allocator: Any, _address: int) -> None:
    name = case.rng.choice(("settle", "give_back", "reset_peaks", "check", "begin_iteration"))
    case.call(f"OnlineAllocator.{name}", getattr(Online, name), allocator)
    case.call("OnlineAllocator.enter", Online.enter, allocator, case.rng.randrange(4))
    for pool_call in ("enter_pool", "end_pool"):
        call = getattr(Online, pool_call)
        case.call(f"OnlineAllocator.{pool_call}", call, allocator, case.rng.randrange(3))


TURNS: tuple[Callable[[Case, Any, int], Any], ...] = (
    *(allocate,) * 6, *(free,) * 4, use_on, look, rarely,
)  # fmt: skip


def request_rows(rng: Random) -> list[Any]:
    """Return the columns of a run, its frees mostly of blocks that live."""
    actions, addresses, sizes, live = [], [], [], [PAGE]
    for number in range(rng.randint(0, 60)):
        action = rng.choice([0, 0, 0, 1, 1, 2, 3, 4, 9])
        address = PAGE * (number + 2) if action == 0 else rng.choice(live)
        live.append(address)
        actions.append(action)
        addresses.append(address)
        sizes.append(rng.choice(SIZES))
    streams = column(rng.choice((0, 0, 1, -1)) for _ in actions)
    visits = column(rng.randrange(4) for _ in actions)
    pools = column((rng.randrange(3) for _ in actions), np.uint64)
    return [
        column(actions, np.uint8),
        column(addresses, np.uint64),
        column(sizes),
        streams,
        visits if rng.random() < 0.5 else None,
        *([pools] if rng.random() < 0.5 else []),
    ]


def replays(case: Case) -> None:
    rng = case.rng
    log = case.call("RequestLog", _core.RequestLog, *request_rows(rng))
    memory = Ledger(PAGE, rng.choice((4, 500)) * PAGE, _core.LedgerStreams.WHEN_TOLD)
    segments = _core.SegmentLog(memory)
    name, kind = rng.choice(REPLAYS)
    asked = online_allocator(case, segments) if kind is _core.OnlineReplay else Planned(segments)
    if log is None or asked is None:
        return
    read(log)
    made = case.call(name, kind, log, asked, memory, segments, rng.random() < 0.5)
    if made is None:
        return
    for row in (rng.randint(0, log.row_count), rng.choice((-1, 1 << 40)), log.row_count):
        case.call(f"{name}.run_to", kind.run_to, made, row)
        read(made)
    for _ in range(2):
        outcome = case.call(f"{name}.end", kind.end, made)
        if outcome is None:
            break
        read(outcome)
        for taken in ("take_addresses", "take_allocated", "take_reserved"):
            case.call(f"ReplayOutcome.{taken}", getattr(_core.ReplayOutcome, taken), outcome)
        case.call(f"{name}.run_to", kind.run_to, made, log.row_count)
    type(asked).check(asked)


def of(kind: type) -> tuple[str, ...]:
    return (kind.__name__, *(f"{kind.__name__}.{name}" for name in properties(kind)))


def methods(kind: type, *names: str) -> tuple[str, ...]:
    return tuple(f"{kind.__name__}.{name}" for name in names)


def definitions(case: Case) -> None:
    definition = case.rng.choice(case.call("online_allocators", _core.online_allocators))
    read(definition)
    given: list[Any] = []
    for parameter in definition.parameters:
        read(parameter)
        given.append(case.rng.choice([parameter.usual, True, 1, -1, 1 << 62]))
    given = case.rng.choice([given, given, given[1:], [*given, 0]])
    made = case.call("OnlineDefinition.make", definition.make, ledger(case), given)
    if made is not None:
        Online.check(made)


CALLS: dict[Callable[[Case], None], tuple[str, ...]] = {
    online_allocators: (
        *of(Ledger), *methods(Ledger, "dictate_plain", "dictate_ranges", "finish"),
        "LedgerStreams", "SimulatedMemory.destroy_stream", *of(_core.CountingMemory),
        *of(_core.DeviceCalls), *of(_core.SegmentLog), *methods(_core.SegmentLog, "rows"),
        *of(_core.PytorchSettings), *methods(_core.PytorchSettings, "rounded", "segment_for"),
        *of(_core.PytorchCaching), *of(_core.PytorchExpandable), *of(_core.GmlakeRules),
        *of(_core.GmlakeStates), *of(_core.Gmlake), *methods(_core.Gmlake, "states"),
        *of(_core.VpmmSettings), "VpmmState", *of(_core.VpmmView), *of(_core.Vpmm),
        *methods(_core.Vpmm, "keep_stages", "regions", "stages"), *of(Online),
        *methods(Online, "allocate", "free", "use_on", "settle", "give_back", "figures",
                 "own_figures", "reset_peaks", "segments", "check", "begin_iteration", "enter",
                 "enter_pool", "end_pool"),
        *of(_core.StweaverProfile), *of(Stweaver), *methods(Stweaver, "adopt", "reserve_pool"),
        *of(_core.OnlineFigures), *of(_core.OnlineSegment), *of(_core.OnlineBlock), "OnlineState",
    ),
    definitions: (
        "online_allocators", *of(_core.OnlineDefinition), *of(_core.OnlineParameter),
        "OnlineDefinition.make",
    ),
    servings: (
        "ServingAllocator", *methods(Serving, "allocate", "free", "use_on", "give_back"),
        "ServingOnlineAllocator",
        *methods(ServingOnline, "figures", "own_figures", "calls", "nanoseconds", "reset_peaks",
                 "check", "begin_iteration", "enter"),
        *of(_core.StweaverCounts), *of(Visits),
        *methods(Stweaver, "adopt_for_less", "record_beneath", "keep_apart_beneath"),
        *methods(Visits, "add", "renumber", "enter", "begin_phase", "begin_forward", "end_forward",
                 "begin_backward", "end_backward", "leave_all"),
    ),
    replays: (
        "RecordedAction", *of(_core.RequestLog), *of(_core.ReplayOutcome),
        *of(_core.OnlineReplay), *methods(_core.OnlineReplay, "run_to", "end"),
        *of(_core.PlannedReplay), *methods(_core.PlannedReplay, "run_to", "end"),
        *methods(_core.ReplayOutcome, "take_addresses", "take_allocated", "take_reserved"),
    ),
}  # fmt: skip
