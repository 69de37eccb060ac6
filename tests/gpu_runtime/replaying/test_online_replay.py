"""The core's online allocators over requests: figures, series, devices, memory given back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpu_runtime._core import OnlineReplay, PytorchCaching, SimulatedMemory
from gpu_runtime.replaying.online_replay import replay_online
from gpu_runtime.replaying.replay_device import ReplayDevice, open_replay_device
from instances.traces.trace_requests import requests_of_trace
from planners.errors import DeviceError
from planners.model.online_result import OnlineDevice, OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence
from planners.online.online_run import run_online
from planners.registry import choose_online
from tests.gpu_runtime.replaying.recordings import (
    MIB,
    SEGMENT_FREE,
    caching_requests,
    random_trace,
)

NAMES = ("pytorch-caching", "pytorch-expandable", "planned")
HOST_DEVICES = (OnlineDevice.LEDGER, OnlineDevice.SIMULATED)


def replayed(name: str, requests: RequestSequence, terms: OnlineTerms) -> OnlineResult:
    (allocator,) = choose_online(name)
    return allocator.info.build()(requests, terms)


def live_bytes(requests: RequestSequence) -> list[int]:
    """Return the bytes of live requests after each row: those that nobody has asked to free."""
    live: set[int] = set()
    sums = []
    for action, request in zip(requests.action, requests.request, strict=True):
        if action == RequestAction.ALLOCATE:
            live.add(int(request))
        else:
            live.discard(int(request))
        sums.append(sum(int(requests.size[number]) for number in live))
    return sums


def test_the_figures_of_a_run_by_hand() -> None:
    result = replayed("pytorch-caching", caching_requests(), OnlineTerms(has_series=True))
    assert result.requested_peak == 1024 + 4 * MIB
    assert result.allocated_peak == 1024 + 4 * MIB
    assert result.reserved_peak == 22 * MIB
    assert result.efficiency == pytest.approx((1024 + 4 * MIB) / (22 * MIB))
    assert result.reserved.tolist() == [2 * MIB, *[22 * MIB] * 5]
    # The last gets the hole of 2 MiB as a whole: what it leaves is too small for large requests.
    assert np.diff(result.allocated, prepend=0).tolist() == [
        1024, 2 * MIB, 2 * MIB, -2 * MIB, 2 * MIB, -2 * MIB,
    ]  # fmt: skip
    assert result.device_calls == {"allocate_plain": 2}


@pytest.mark.parametrize("begins", [[], [0, 1]])
@pytest.mark.parametrize("name", [*NAMES, "gmlake", "vpmm", "stweaver"])
def test_memory_may_be_given_back_that_nobody_asked_for(name: str, begins: list[int]) -> None:
    nothing = np.zeros(0, np.int64)
    twice = np.full(2, RequestAction.GIVE_BACK, np.int64)
    rows = np.zeros(2, np.int64)
    requests = RequestSequence(
        "idle", twice, rows, rows, nothing, nothing, iteration_rows=np.array(begins, np.int64)
    )
    result = replayed(name, requests, OnlineTerms(has_series=True))
    assert result.reserved.tolist() == [0, 0]
    assert result.requested_peak == 0


@pytest.mark.parametrize("device", HOST_DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_requested_bytes_are_those_of_the_requests(name: str, device: OnlineDevice) -> None:
    requests = requests_of_trace(random_trace(3, streams=2))
    result = replayed(name, requests, OnlineTerms(device, has_series=True))
    live = live_bytes(requests)
    assert result.requested_peak == max(live)
    assert len(result.reserved) == len(result.allocated) == requests.row_count
    assert (result.allocated >= live).all()
    assert (result.reserved >= result.allocated).all()
    assert (result.reserved_peak, result.allocated_peak) == (
        result.reserved.max(), result.allocated.max(),
    )  # fmt: skip
    assert (result.addresses > 0).all()
    assert result.out_of_memory_row is None


@pytest.mark.parametrize("share", [None, 0.9, 1.05, 1.4])
@pytest.mark.parametrize(
    "label", [*NAMES, "gmlake:fragmentation_limit_mib=0", "vpmm", "vpmm:page_mib=4", "stweaver"]
)
def test_devices_with_and_without_memory_are_asked_the_same(
    label: str, share: float | None
) -> None:
    (allocator,) = choose_online(label)
    for seed in range(4):
        requests = requests_of_trace(random_trace(seed, streams=3))
        requests = replace(requests, is_recorded=False, segments=requests.segments[:0])
        capacity = None if share is None else int(share * max(live_bytes(requests)))
        ledger, simulated = (
            allocator.info.build(**allocator.parameters)(
                requests, OnlineTerms(device, capacity, has_series=True)
            )
            for device in HOST_DEVICES
        )
        assert ledger.out_of_memory_row == simulated.out_of_memory_row
        assert ledger.device_calls == simulated.device_calls
        assert ledger.reserved.tolist() == simulated.reserved.tolist()


def test_simulated_addresses_ascend_around_what_the_process_has_there() -> None:
    other = SimulatedMemory(2 * MIB, 2 * MIB)
    in_the_way = other.reserve_range(2 * MIB)
    memory = SimulatedMemory(2 * MIB, 2 * MIB)
    ranges = [memory.reserve_range(2 * MIB) for _ in range(3)]
    assert ranges == sorted(ranges)
    for device, address in [(other, in_the_way), *((memory, each) for each in ranges)]:
        device.release_range(address, 2 * MIB)


@pytest.mark.parametrize("name", NAMES)
def test_a_device_without_enough_memory_ends_the_run(name: str) -> None:
    requests = requests_of_trace(random_trace(5))
    terms = OnlineTerms(capacity=64 * MIB, has_series=True)
    result = replayed(name, requests, terms)
    row = result.out_of_memory_row
    assert row is not None
    assert requests.action[row] == RequestAction.ALLOCATE
    assert len(result.reserved) == row
    assert max(live_bytes(requests)[: row + 1]) > 32 * MIB
    assert result.reserved_peak <= 64 * MIB


def test_a_device_of_accounts_has_more_than_is_asked_for() -> None:
    requests = caching_requests(size=[1 << 40, 1 << 40, 5, 6], segments=[])
    result = replayed("pytorch-caching", requests, OnlineTerms())
    assert (result.out_of_memory_row, result.requested_peak) == (None, (2 << 40) + 5)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_of_more_than_any_device_has_ends_out_of_memory(name: str) -> None:
    requests = caching_requests(size=[5, 1 << 47, 5, 6], segments=[])
    assert replayed(name, requests, OnlineTerms()).out_of_memory_row is not None


@pytest.mark.parametrize("name", NAMES)
def test_idle_memory_goes_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[ReplayDevice] = []

    def remembered(requests: RequestSequence, terms: OnlineTerms) -> ReplayDevice:
        opened.append(open_replay_device(requests, terms))
        return opened[-1]

    module = "planned_replay" if name == "planned" else "online_replay"
    monkeypatch.setattr(f"gpu_runtime.replaying.{module}.open_replay_device", remembered)
    requests = requests_of_trace(random_trace(6, streams=2))
    result = replayed(name, requests, OnlineTerms(OnlineDevice.SIMULATED))
    (device,) = opened
    assert result.reserved_peak > 0
    assert device.memory.created_bytes == 0
    # What that took is not the allocator's.
    assert sum(device.calls.values()) > result.call_count


@pytest.mark.parametrize("device", HOST_DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_a_late_free_keeps_its_block_until_it_is_complete(name: str, device: OnlineDevice) -> None:
    """Two blocks are freed, of which the second is complete when as much is asked for, or not.

    event          0   1   2   3   4   5   6   7   8
    20 MiB         [-------)~~~~~~~~~~~~~~~~~~~~~~~~
    30 MiB             [-------)~~~~~~~)
    1 byte                         [----------------
    30 MiB                             or  [--------
    """

    def reserved(completed: int) -> int:
        requests = caching_requests(
            event_count=9, size=[20 * MIB, 30 * MIB, 1, 30 * MIB], alloc=[0, 1, 4, 6],
            free_requested=[2, 3, 9, 9], freed=[9, completed, 9, 9], segments=[],
        )  # fmt: skip
        return replayed(name, requests, OnlineTerms(device)).reserved_peak

    assert reserved(5) <= 62 * MIB
    if name == "planned":
        # Beyond its bound, the stream that wants the bytes waits for the other one, on the device.
        assert reserved(7) <= 62 * MIB
    else:
        assert reserved(7) >= 80 * MIB


@pytest.mark.parametrize("name", NAMES)
def test_memory_given_back_in_the_run_is_given_back(name: str) -> None:
    requests = caching_requests(
        event_count=5, size=[30 * MIB, 40 * MIB], alloc=[0, 4], free_requested=[1, 5], freed=[1, 5],
        address=[1, 2], segments=[(2, SEGMENT_FREE, 1, 30 * MIB, 0)],
    )  # fmt: skip
    result = replayed(name, requests, OnlineTerms(has_series=True))
    assert [value >= 30 * MIB for value in result.reserved.tolist()] == [True, True, False, True]


def test_a_gpu_has_the_memory_that_it_has() -> None:
    terms = OnlineTerms(OnlineDevice.CUDA, capacity=MIB)
    with pytest.raises(DeviceError, match="--capacity: a GPU has the memory that it has"):
        replayed("pytorch-caching", caching_requests(), terms)


def test_a_refusal_of_the_device_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_replay: OnlineReplay, _row: int) -> None:
        raise OSError("map: refused")

    monkeypatch.setattr(OnlineReplay, "run_to", refused)
    with pytest.raises(DeviceError, match="device ledger: map: refused"):
        replay_online(caching_requests(), OnlineTerms(), PytorchCaching)


def test_an_allocator_without_a_plan_has_a_reason_and_no_mark() -> None:
    requests = requests_of_trace(random_trace(2))
    chosen = choose_online("planned,stweaver,stweaver:static=false,pytorch-caching")
    run = run_online(requests, chosen, OnlineTerms())
    planned, stweaver, *others = run.rows
    for row in (planned, stweaver):
        assert row.reason.startswith("planned nothing: two marked iterations or more are needed")
        assert row.result is not None
        assert not run.is_best(row)
    assert [row.reason for row in others] == ["", ""]
    assert run.best in others
