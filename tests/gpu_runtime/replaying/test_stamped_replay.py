"""Blocks that are stamped in a replay: two that share bytes are seen, and no others."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gpu_runtime._core import (
    BlockStamps,
    OnlineReplay,
    PytorchCaching,
    RecordedAction,
    ReplayedStreams,
    RequestLog,
    SimulatedMemory,
)
from gpu_runtime.replaying import online_replay, planned_replay, replay_device
from gpu_runtime.replaying.replay_device import ReplayDevice, open_replay_device
from instances.traces.trace_requests import requests_of_trace
from planners.errors import GaplessError
from planners.model.online_result import OnlineDevice, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.online.online_run import run_online
from planners.registry import choose_online
from tests.gpu_runtime.replaying.recordings import MIB, caching_requests, random_trace

PAGE = 2 * MIB
OURS = ("pytorch-caching", "pytorch-expandable", "gmlake", "vpmm", "planned")
VERIFIED = OnlineTerms(OnlineDevice.SIMULATED, is_verified=True)


@pytest.fixture
def requests() -> RequestSequence:
    """Return requests of which some are freed long before that is complete."""
    return requests_of_trace(random_trace(6, 150, streams=2))


@pytest.mark.parametrize("name", OURS)
def test_no_allocator_shares_bytes_and_stamps_change_none(
    name: str, requests: RequestSequence
) -> None:
    found = [
        run_online(requests, choose_online(name), terms).rows[0]
        for terms in (VERIFIED, OnlineTerms(OnlineDevice.SIMULATED))
    ]
    expected = "planned nothing" if name == "planned" else ""  # nothing marks iterations
    assert [row.reason.partition(":")[0] for row in found] == [expected, expected]
    stamped, plain = (row.result for row in found)
    assert stamped is not None
    assert plain is not None
    assert (stamped.reserved_peak, stamped.device_calls) == (
        plain.reserved_peak, plain.device_calls,
    )  # fmt: skip


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let replays have a device that says too early that a stream is done."""

    class Impatient(SimulatedMemory):
        def work_at_events(self) -> None:
            pass

    def opened(requests: RequestSequence, terms: OnlineTerms) -> ReplayDevice:
        device = open_replay_device(requests, terms)
        told = ReplayedStreams(device.memory, 0)
        return replace(device, memory=told)

    monkeypatch.setattr(replay_device, "SimulatedMemory", Impatient)
    for module in (online_replay, planned_replay):
        monkeypatch.setattr(module, "open_replay_device", opened)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", OURS)
def test_a_block_that_is_handed_out_too_early_is_seen(name: str, requests: RequestSequence) -> None:
    (row,) = run_online(requests, choose_online(name), VERIFIED).rows
    assert row.reason.startswith("no two live blocks share a byte, found ")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", OURS)
def test_blocks_live_at_the_end_are_checked(name: str) -> None:
    """The first of two blocks is freed, and never complete.

    event          0   1   2   3   4   5
    30 MiB         [---)~~~~~~~~~~~~~~~~
    30 MiB                 [------------
    1 byte                     [---)~~~)
    """
    requests = caching_requests(
        event_count=6, size=[30 * MIB, 30 * MIB, 1], alloc=[0, 2, 3], free_requested=[1, 6, 4],
        freed=[6, 6, 5], address=[1, 2, 3], segments=[],
    )  # fmt: skip
    (row,) = run_online(requests, choose_online(name), VERIFIED).rows
    assert row.reason.endswith("in that of request 0 of 31,457,280 bytes; so in 1 block")


@pytest.mark.parametrize(
    ("second", "seen"), [(0, [0]), (16, [0]), (96, [0]), (112, []), (-112, [])], ids=str
)
def test_a_live_block_is_handed_out_again(second: int, seen: list[int]) -> None:
    memory = SimulatedMemory(PAGE, 8 * PAGE)
    address = memory.allocate_plain(PAGE) + 512
    stamps = BlockStamps(memory, memory)
    stamps.hand_out(0, address, 100)
    stamps.hand_out(1, address + second, 100)
    stamps.take_back_all()
    assert [(each.number, each.address) for each in stamps.found()] == [
        (number, address + second) for number in seen
    ]


def test_a_large_block_is_told_once() -> None:
    memory = SimulatedMemory(PAGE, 80 * PAGE)
    address = memory.allocate_plain(64 * PAGE)
    stamps = BlockStamps(memory, memory)
    stamps.hand_out(0, address, 64 * PAGE)
    for number, at in enumerate((PAGE, 40 * PAGE), 1):
        stamps.hand_out(number, address + at, 8)
    stamps.take_back(0)
    device = open_replay_device(requests_of_trace(random_trace(1)), VERIFIED)
    told = rf"found 4 words .* from {address + PAGE:#x} on, in that of request 0 .* in 1 block$"
    with pytest.raises(GaplessError, match=told):
        replace(device, stamps=stamps).require_apart(requests_of_trace(random_trace(1)))


def test_a_replay_of_large_blocks_hears_signals() -> None:
    size = np.array([64 * MIB] * 100 + [128 * MIB])
    action = np.array([RecordedAction.ALLOCATE, RecordedAction.FREE_COMPLETED] * 50, np.uint8)
    action = np.append(action, np.uint8(RecordedAction.ALLOCATE))
    memory = SimulatedMemory(PAGE, 256 * PAGE)
    allocator = PytorchCaching(memory)
    stamps = BlockStamps(memory, memory)
    log = RequestLog(action, np.ones(101, np.uint64), size, np.zeros(101, np.int64))
    replay = OnlineReplay(log, allocator, memory, stamps=stamps)
    begins = threading.Event()
    thread = threading.Thread(target=lambda: (begins.wait(), _thread.interrupt_main()))
    thread.start()
    begins.set()
    with pytest.raises(KeyboardInterrupt):
        replay.run_to(101)
    thread.join()
    assert allocator.figures().requested_peak == 64 * MIB


@pytest.mark.parametrize("is_plain", [True, False])
def test_memory_that_goes_away_below_a_block(is_plain: bool) -> None:
    memory = SimulatedMemory(PAGE, 8 * PAGE)
    stamps = BlockStamps(memory, memory)
    if is_plain:
        address = stamps.allocate_plain(PAGE)
    else:
        address = stamps.reserve_range(PAGE)
        stamps.map(address, stamps.create_pages(PAGE), PAGE)
        stamps.set_access(address, PAGE)
    stamps.hand_out(3, address + PAGE - 512, 512)
    if is_plain:
        stamps.release_plain(address)
    else:
        stamps.unmap(address, PAGE)
    stamps.take_back_all()
    assert [each.number for each in stamps.found()] == [3]


def test_pages_at_two_addresses_are_one_memory() -> None:
    memory = SimulatedMemory(PAGE, 8 * PAGE)
    pages, ranges = memory.create_pages(PAGE), [memory.reserve_range(PAGE) for _ in range(2)]
    for address in ranges:
        memory.map(address, pages, PAGE)
        memory.set_access(address, PAGE)
    stamps = BlockStamps(memory, memory)
    for number, address in enumerate(ranges):
        stamps.hand_out(number, address, PAGE)
    stamps.take_back(1)
    assert stamps.found() == []
    stamps.take_back(0)
    (found,) = stamps.found()
    assert (found.number, found.address, found.words) == (0, ranges[0], PAGE // 8)


@pytest.mark.parametrize(
    ("wait", "seen"),
    [
        (lambda stamps, event: stamps.make_wait(3, event), 0),
        (lambda stamps, event: stamps.await_event(event), 0),
        (lambda stamps, _event: stamps.synchronize(), 0),
        (lambda stamps, _event: stamps.await_event(stamps.record_event(8)), 1),
        (lambda stamps, event: stamps.destroy_event(event), 1),
    ],
    ids=["device", "host", "all", "another", "none"],
)
def test_a_block_may_reuse_bytes_after_a_wait(
    wait: Callable[[BlockStamps, int], None], seen: int
) -> None:
    memory = SimulatedMemory(PAGE, 8 * PAGE)
    address = memory.allocate_plain(PAGE)
    stamps = BlockStamps(memory, memory)
    stamps.hand_out(0, address, PAGE)
    stamps.take_back_after(0, 7)
    wait(stamps, stamps.record_event(7))
    stamps.hand_out(1, address, PAGE)
    stamps.take_back_all()
    assert len(stamps.found()) == seen


def test_recorded_streams_stand_for_streams_that_there_are() -> None:
    memory = SimulatedMemory(PAGE, 8 * PAGE)
    memory.destroy_stream(77)
    streams = ReplayedStreams(memory, 4)
    with pytest.raises(OSError, match="no such stream"):
        memory.record_event(77)
    streams.stand_for(77, 5)
    for recorded in (77, 78):
        event = streams.record_event(recorded)
        assert not streams.is_done(event)
        streams.finish(recorded)
        assert streams.is_done(event)
        streams.destroy_event(event)
    for wait in (streams.await_event, lambda _event: streams.synchronize()):
        event = streams.record_event(78)
        streams.make_wait(77, event)
        assert not streams.is_done(event)
        wait(event)
        assert streams.is_done(event)
        streams.destroy_event(event)
    assert [(each.waiting, each.awaited) for each in memory.waits] == [(5, 4)] * 2
    assert memory.live_events == 0
