"""STWeaver in a replay: no two live requests share a byte, and each part does its share."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest

from gpu_runtime._core import PytorchCaching
from gpu_runtime.replaying.online_replay import replay_online
from gpu_runtime.replaying.stweaver_replay import Served, StweaverReplay, replay_stweaver
from instances.traces.allocation_trace import AllocationTrace
from instances.traces.trace_requests import requests_of_trace
from planners import Budget, Plan, Problem, check
from planners.errors import InvalidPlanError
from planners.model.online_result import OnlineDevice, OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.registry import UnsupportedProblemError, register, remove
from tests.gpu_runtime.replaying.random_training import random_training

PLANNER, LIMIT = "homosize", 5.0


def replayed(
    requests: RequestSequence, terms: OnlineTerms | None = None, *, reuse: bool = True
) -> StweaverReplay:
    return replay_stweaver(requests, terms or OnlineTerms(), PLANNER, LIMIT, reuse=reuse)


def cached(requests: RequestSequence) -> OnlineResult:
    return replay_online(requests, OnlineTerms(), PytorchCaching, "plain")


def require_apart(requests: RequestSequence, replay: StweaverReplay) -> None:
    """Raise where two requests share a byte while both live: the referee says so."""
    address = replay.result.addresses
    problem = Problem(requests.size, requests.allocation_rows, requests.completion_rows)
    check(problem, Plan.of(problem, address - address.min()))


@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_no_two_live_requests_share_a_byte(seed: int, varies: bool) -> None:
    trace = random_training(seed, varies=varies, streams=(0, 0, 0, 7))
    requests = requests_of_trace(trace)
    replay = replayed(requests)
    require_apart(requests, replay)
    served = replay.served
    assert (served == Served.REUSED).any()
    in_pool = (served == Served.PLANNED) | (served == Served.REUSED)
    assert (requests.stream[in_pool] == 0).all()
    # Where static requests come and go as they were profiled nothing dynamic is in their way.
    assert varies or not (served == Served.DISPLACED).any()


def test_a_replay_that_does_not_know_the_layers_says_so() -> None:
    requests = requests_of_trace(random_training(0))
    named = replace(requests, module=np.zeros(requests.row_count, np.int64))
    static = requests_of_trace(random_training(0, dynamic=0))
    said = [replayed(each).result.not_done for each in (requests, named, static)]
    assert "a recording with modules is needed" in said[0]
    assert said[1:] == ["", ""]


def test_what_finds_another_one_in_its_place_is_displaced() -> None:
    requests = [requests_of_trace(random_training(seed, varies=True)) for seed in range(15)]
    assert any((replayed(its).served == Served.DISPLACED).any() for its in requests)


def test_reuse_takes_from_the_cache() -> None:
    reserved = []
    for seed in range(5):
        requests = requests_of_trace(random_training(seed, dynamic=40))
        whole, without = (replayed(requests, reuse=reuse) for reuse in (True, False))
        assert whole.pool_bytes == without.pool_bytes > 0
        assert not (without.served == Served.REUSED).any()
        reserved.append([its.result.reserved_peak for its in (whole, without)])
    # The cache takes 20 MiB at a time.
    with_reuse, alone = np.sum(reserved, axis=0)
    assert with_reuse < alone


def test_without_its_static_part_it_is_caching() -> None:
    requests = requests_of_trace(random_training(3))
    replay = replay_stweaver(requests, OnlineTerms(), PLANNER, LIMIT, static=False)
    caching = cached(requests)
    assert replay.result.reserved_peak == caching.reserved_peak
    assert (replay.result.addresses == caching.addresses).all()
    once = requests_of_trace(random_training(3, steps=1))
    assert replayed(once).result.reserved_peak == cached(once).reserved_peak


def test_what_its_memory_is_made_of() -> None:
    requests = requests_of_trace(random_training(0, dynamic=40))
    whole = replayed(requests)
    parts = whole.result.statistics
    assert parts["static"] + parts["dynamic"] == whole.result.requested_peak
    assert 0 < parts["static"] <= parts["pool"] == whole.pool_bytes
    assert parts["fallback"] == whole.result.reserved_peak - whole.pool_bytes > 0
    assert parts["dynamic"] > 0
    assert parts["displaced_requests"] == (whole.served == Served.DISPLACED).sum()


def test_without_its_static_part_all_is_dynamic_and_falls_back() -> None:
    requests = requests_of_trace(random_training(3))
    result = replay_stweaver(requests, OnlineTerms(), PLANNER, LIMIT, static=False).result
    assert dict(result.statistics) == {
        "static": 0, "dynamic": result.requested_peak, "pool": 0,
        "fallback": result.reserved_peak, "displaced_requests": 0,
    }  # fmt: skip


def test_figures_count_pool_and_cache() -> None:
    requests = requests_of_trace(random_training(5, dynamic=20))
    replay = replayed(requests, OnlineTerms(has_series=True))
    result = replay.result
    place = -(-requests.size // 512) * 512
    live = requests.live_bytes(place)
    assert len(result.reserved) == len(result.allocated) == requests.row_count
    # A cache may hand out more than was asked for, a pool does not.
    assert (result.allocated >= live).all()
    assert result.allocated_peak == result.allocated.max() <= result.reserved_peak
    assert result.reserved_peak == result.reserved.max() >= replay.pool_bytes
    assert result.requested_peak == requests.live_bytes(requests.size).max()
    assert result.device_calls["allocate_plain"] == len(result.segments)
    assert result.segments[:, 2].sum() == result.reserved_peak
    in_pool = np.isin(replay.served, (Served.PLANNED, Served.REUSED))
    assert result.segments[0, 0] == 0
    assert set(result.segments[1:, 0]) <= set(requests.allocation_rows[~in_pool])
    first = result.segments[0, 1]
    offset = result.addresses[in_pool] - first
    assert (offset >= 0).all()
    assert (offset + place[in_pool] <= replay.pool_bytes).all()


def test_the_last_iteration_has_a_time_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # Serving asks the time as it begins, at the last iteration, and as it ends.
    monkeypatch.setattr(time, "perf_counter", itertools.count().__next__)
    result = replayed(requests_of_trace(random_training(5))).result
    assert 1 <= result.last_iteration_seconds < 2 < result.seconds
    full = replayed(requests_of_trace(random_training(5)), OnlineTerms(capacity=1 << 21)).result
    assert full.last_iteration_seconds == 0


def test_a_device_without_room_for_the_pool_serves_nothing() -> None:
    requests = requests_of_trace(random_training(5))
    result = replayed(requests, OnlineTerms(capacity=1 << 21)).result
    assert (result.out_of_memory_row, result.reserved_peak) == (0, 0)
    assert not result.addresses.any()


def test_a_full_device_ends_the_run_at_a_row() -> None:
    requests = requests_of_trace(random_training(5, dynamic=40))
    whole = replayed(requests)
    capacity = whole.result.reserved_peak - (2 << 20)
    result = replayed(requests, OnlineTerms(capacity=capacity, has_series=True)).result
    row = result.out_of_memory_row
    assert row is not None
    assert 0 < row == len(result.reserved) < requests.row_count
    assert result.reserved_peak <= capacity
    made = requests.allocation_rows < row
    assert ((result.addresses > 0) == made).all()


def test_memory_of_the_machine_is_served_alike() -> None:
    requests = requests_of_trace(random_training(6))
    simulated, ledger = (
        replayed(requests, OnlineTerms(device))
        for device in (OnlineDevice.SIMULATED, OnlineDevice.LEDGER)
    )
    require_apart(requests, simulated)
    assert simulated.result.reserved_peak == ledger.result.reserved_peak


def test_a_free_that_completes_later_keeps_its_place() -> None:
    trace = random_training(8)
    requested = np.maximum(trace.alloc + 1, trace.freed - 5)
    late = AllocationTrace(
        trace.event_count, trace.size, trace.alloc, requested, trace.freed,
        mark_event=trace.mark_event, mark_phase=trace.mark_phase,
        mark_microbatch=trace.mark_microbatch, mark_iteration=trace.mark_iteration,
    )  # fmt: skip
    requests = requests_of_trace(late)
    replay = replayed(requests)
    require_apart(requests, replay)
    assert (replay.served == Served.REUSED).any()


def test_the_check_of_addresses_sees_what_shares_a_byte() -> None:
    requests = requests_of_trace(random_training(6))
    replay = replayed(requests)
    result = replace(replay.result, addresses=np.full_like(replay.result.addresses, 512))
    with pytest.raises(InvalidPlanError):
        require_apart(requests, replace(replay, result=result))


def test_a_planner_without_a_plan_is_an_error() -> None:
    @register("refusing")
    def refuse(_problem: Problem, _budget: Budget) -> Plan:
        raise UnsupportedProblemError("not these")

    requests = requests_of_trace(random_training(6))
    try:
        with pytest.raises(InvalidPlanError, match="refusing: a plan of the static requests is"):
            replay_stweaver(requests, OnlineTerms(), "refusing", LIMIT)
    finally:
        remove("refusing")


@pytest.mark.parametrize("module", [[], [-1, -1], [0, -1]])
@pytest.mark.parametrize("marks", [[0, 0], [0, 4], [2, 3], [4, 4]])
def test_iterations_may_be_empty(marks: list[int], module: list[int]) -> None:
    modules = {"alloc_module": module, "free_module": module, "module_names": ["net"]}
    trace = AllocationTrace(
        4, [700, 800], [0, 2], [1, 3], [1, 3], mark_event=marks, mark_phase=[0, 0],
        mark_microbatch=[0, 0], mark_iteration=[0, 1], **(modules if module else {}),
    )  # fmt: skip
    requests = requests_of_trace(trace)
    replay = replayed(requests)
    require_apart(requests, replay)
    assert replay.result.requested_peak == 800
