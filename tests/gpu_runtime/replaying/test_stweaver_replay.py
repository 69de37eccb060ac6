"""STWeaver in a replay is causal, serves as a model of the paper does, and says what it lacks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gpu_runtime._core import PytorchCaching
from gpu_runtime.replaying.causal_profile import ANY_SIZE, profile_iteration
from gpu_runtime.replaying.online_replay import replay_online
from gpu_runtime.replaying.static_profile import ProfiledRun
from gpu_runtime.replaying.stweaver_replay import plan_static, replay_stweaver
from instances.traces.allocation_trace import AllocationTrace
from instances.traces.trace_requests import requests_of_trace
from planners import Budget, Plan, Problem, check
from planners.errors import InvalidPlanError
from planners.files.formats import read_requests
from planners.model.online_result import OnlineDevice, OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence
from planners.registry import UnsupportedProblemError, register
from tests.gpu_runtime.replaying.random_training import random_training
from tests.gpu_runtime.replaying.stweaver_model import StweaverModel, modelled_offsets
from tests.repository import ROOT

PLANNER, LIMIT = "homosize", 5.0
TRACES = ROOT / "evaluation" / "studies" / "traces"


def replayed(
    requests: RequestSequence,
    terms: OnlineTerms | None = None,
    *,
    reuse: bool = True,
    foresight: bool = False,
) -> OnlineResult:
    return replay_stweaver(
        requests, terms or OnlineTerms(), PLANNER, LIMIT, reuse=reuse, foresight=foresight
    )


def cached(requests: RequestSequence) -> OnlineResult:
    return replay_online(requests, OnlineTerms(), PytorchCaching, "plain")


@cache
def recorded(name: str) -> RequestSequence:
    return read_requests(TRACES / f"{name}.npz")


def require_apart(requests: RequestSequence, result: OnlineResult) -> None:
    """Raise where two requests share a byte while both live: the referee says so."""
    address = result.addresses
    problem = Problem(requests.size, requests.allocation_rows, requests.completion_rows)
    check(problem, Plan.of(problem, address - address.min()))


def pool_offsets(result: OnlineResult) -> list[int | None]:
    """Return the offset of each request in the pool, None for one outside of it."""
    offset = result.addresses - result.segments[0, 1]
    is_inside = (offset >= 0) & (offset < int(result.statistics["pool"]))
    return [at if inside else None for at, inside in zip(offset.tolist(), is_inside, strict=True)]


def require_as_modelled(requests: RequestSequence, *, reuse: bool = True) -> OnlineResult:
    """Raise unless the replay puts every request where the model of the paper's text does."""
    result = replayed(requests, reuse=reuse)
    profile = profile_iteration(requests)
    assert profile is not None
    plan = plan_static(profile.static, PLANNER, LIMIT)
    model = StweaverModel(profile, plan, int(result.statistics["pool"]), reuse=reuse)
    visits = profile.visits_of_rows(requests).tolist()
    expected = modelled_offsets(requests, model, visits, profile.stream)
    found = pool_offsets(result)
    wrong = [number for number, at in enumerate(expected) if found[number] != at][:1]
    assert not wrong, f"request {wrong}: {found[wrong[0]]}, as modelled {expected[wrong[0]]}"
    return result


@pytest.mark.parametrize("modules", [0, 3])
@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_a_model_of_the_papers_text_serves_alike(seed: int, varies: bool, modules: int) -> None:
    trace = random_training(seed, varies=varies, streams=(0, 0, 0, 7), modules=modules)
    requests = requests_of_trace(trace)
    result = require_as_modelled(requests, reuse=seed % 5 > 0)
    require_apart(requests, result)
    assert result.statistics["planned_requests"]
    in_pool = np.array([at is not None for at in pool_offsets(result)])
    assert (requests.stream[in_pool] == 0).all()


@pytest.mark.parametrize("name", ["mobilenet-v2", "qwen2-moe-r-uneven"])
def test_a_model_serves_a_recorded_run_alike(name: str) -> None:
    result = require_as_modelled(recorded(name))
    assert bool(result.statistics["reused_requests"]) == name.startswith("qwen2")


# GiB that causal estimates of the same recordings reserve.
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("qwen2-moe-r", 33.443), ("qwen2-moe-r-uneven", 33.719),
        ("qwen2-moe-n", 40.941), ("qwen2-moe-n-uneven", 41.146),
    ],
)  # fmt: skip
def test_mixtures_reserve_at_most_their_causal_estimates(name: str, most: float) -> None:
    assert replayed(recorded(name)).reserved_peak <= most * (1 << 30)


def test_later_iterations_do_not_change_how_earlier_ones_are_served() -> None:
    requests = recorded("qwen2-moe-r-uneven")
    begin = int(requests.iteration_rows[-1])
    last = requests.allocation_rows >= begin
    other = replace(requests, size=np.where(last, requests.size // 3 + 1, requests.size))
    made = ~last
    ours, theirs = (replayed(its).addresses[made] for its in (requests, other))
    assert (ours == theirs).all()


@pytest.mark.parametrize("seed", range(5))
def test_every_dynamic_request_of_the_profile_lives_within_its_span(seed: int) -> None:
    requests = requests_of_trace(random_training(seed, dynamic=30, modules=3))
    profile = profile_iteration(requests)
    assert profile is not None
    run, visit = ProfiledRun(requests), profile.visits_of_rows(requests)
    begin, end = run.window(1)
    places = {tuple(key) for key in profile.keys.tolist()}
    lived = 0
    for request in range(requests.request_count):
        made, freed = int(run.made[request]), int(run.freed[request])
        key = int(visit[made]), int(requests.size[request])
        if begin <= made and freed < end and key not in places:
            for each in (key, (key[0], ANY_SIZE)):
                first, last = profile.spans[each]
                assert first <= made - run.skipped
                assert freed - run.skipped <= last
            lived += 1
    assert lived > 10


def test_a_module_that_the_profile_lacks_has_the_time_of_the_one_around_it() -> None:
    requests = recorded("qwen2-moe-r-uneven")
    profile = profile_iteration(requests)
    assert profile is not None
    run, visit = ProfiledRun(requests), profile.visits_of_rows(requests)
    made = run.made[slice(*np.searchsorted(run.made, requests.iteration_rows[1:3]))]
    known = set(visit[made].tolist())
    names = [name for name in requests.module_names if ".experts." in name]
    lacking = [
        number for number, _ in profile.spans
        if number not in known
        and requests.module_names[number % (len(requests.module_names) + 1) - 1] in names
    ]  # fmt: skip
    assert lacking
    for number in lacking:
        first, last = profile.spans[number, ANY_SIZE]
        assert last - first < profile.static.end.max() - run.setup


def test_with_foresight_nothing_is_out_of_place() -> None:
    for seed in range(15):
        requests = requests_of_trace(random_training(seed, streams=(0, 0, 0, 7)))
        result = replayed(requests, foresight=True)
        require_apart(requests, result)
        assert result.statistics["reused_requests"]
        assert not result.statistics["displaced_requests"]
        assert "not STWeaver" in result.not_done


@pytest.mark.parametrize("foresight", [False, True])
def test_requests_with_an_occupied_place_are_displaced(foresight: bool) -> None:
    requests = [requests_of_trace(random_training(seed, varies=True)) for seed in range(15)]
    results = [replayed(its, foresight=foresight) for its in requests]
    assert any(its.statistics["displaced_requests"] for its in results)
    for its, result in zip(requests, results, strict=True):
        require_apart(its, result)


def test_a_replay_that_does_not_know_the_modules_says_so() -> None:
    requests = requests_of_trace(random_training(0))
    named = requests_of_trace(random_training(0, modules=2))
    static = requests_of_trace(random_training(0, dynamic=0))
    said = [replayed(each).not_done for each in (requests, named, static)]
    assert "a recording with modules is needed" in said[0]
    assert said[1:] == ["", ""]


@pytest.mark.parametrize("name", ["qwen2-moe-r", "qwen2-moe-n-uneven"])
def test_reuse_takes_from_the_cache(name: str) -> None:
    whole, without = (replayed(recorded(name), reuse=reuse) for reuse in (True, False))
    assert whole.statistics["pool"] == without.statistics["pool"]
    assert whole.statistics["reused_requests"]
    assert not without.statistics["reused_requests"]
    assert whole.reserved_peak < without.reserved_peak < cached(recorded(name)).reserved_peak


def test_without_its_static_part_it_is_caching() -> None:
    requests = requests_of_trace(random_training(3))
    result = replay_stweaver(requests, OnlineTerms(), PLANNER, LIMIT, static=False)
    caching = cached(requests)
    assert result.reserved_peak == caching.reserved_peak
    assert (result.addresses == caching.addresses).all()
    assert result.not_done == ""
    assert dict(result.statistics) == {
        "static": 0, "dynamic": result.requested_peak, "pool": 0,
        "fallback": result.reserved_peak, "planned_requests": 0, "displaced_requests": 0,
        "reused_requests": 0, "cached_requests": requests.request_count,
    }  # fmt: skip


@pytest.mark.parametrize("foresight", [False, True])
def test_a_run_of_one_iteration_says_so_and_is_cached(foresight: bool) -> None:
    once = requests_of_trace(random_training(3, steps=1))
    result = replayed(once, foresight=foresight)
    assert result.reserved_peak == cached(once).reserved_peak
    assert "two marked iterations or more are needed, found 1" in result.not_done


def test_the_parts_of_its_memory_add_up() -> None:
    requests = requests_of_trace(random_training(0, dynamic=40, modules=4))
    result = replayed(requests)
    parts = result.statistics
    assert int(parts["static"]) + int(parts["dynamic"]) == result.requested_peak
    assert 0 < int(parts["static"]) <= int(parts["pool"])
    assert parts["fallback"] == result.reserved_peak - int(parts["pool"])
    served = ("planned", "displaced", "reused", "cached")
    assert sum(int(parts[f"{name}_requests"]) for name in served) == requests.request_count
    in_pool = [at is not None for at in pool_offsets(result)]
    assert sum(in_pool) == int(parts["planned_requests"]) + int(parts["reused_requests"])


def test_figures_count_pool_and_cache() -> None:
    requests = requests_of_trace(random_training(5, dynamic=20, modules=3))
    result = replayed(requests, OnlineTerms(has_series=True))
    place = -(-requests.size // 512) * 512
    live = requests.live_bytes(place)
    assert len(result.reserved) == len(result.allocated) == requests.row_count
    # A cache may hand out more than was asked for, a pool does not.
    assert (result.allocated >= live).all()
    assert result.allocated_peak == result.allocated.max() <= result.reserved_peak
    assert result.reserved_peak == result.reserved.max()
    assert result.requested_peak == requests.live_bytes(requests.size).max()
    assert result.device_calls["allocate_plain"] == len(result.segments)
    assert result.segments[:, 2].sum() == result.reserved_peak
    in_pool = np.array([at is not None for at in pool_offsets(result)])
    assert result.segments[0].tolist()[::2] == [0, result.statistics["pool"]]
    assert set(result.segments[1:, 0]) <= set(requests.allocation_rows[~in_pool])


def test_the_last_iteration_has_a_time_of_its_own() -> None:
    result = replayed(requests_of_trace(random_training(5)))
    assert 0 < result.last_iteration_seconds < result.seconds
    full = replayed(requests_of_trace(random_training(5)), OnlineTerms(capacity=1 << 21))
    assert full.last_iteration_seconds == 0


def test_a_device_without_room_for_the_pool_serves_nothing() -> None:
    requests = requests_of_trace(random_training(5))
    result = replayed(requests, OnlineTerms(capacity=1 << 21))
    assert (result.out_of_memory_row, result.reserved_peak) == (0, 0)
    assert not result.addresses.any()


def test_a_full_device_ends_the_run_at_a_row() -> None:
    requests = requests_of_trace(random_training(5, dynamic=40))
    whole = replayed(requests)
    capacity = whole.reserved_peak - (2 << 20)
    result = replayed(requests, OnlineTerms(capacity=capacity, has_series=True))
    row = result.out_of_memory_row
    assert row is not None
    assert 0 < row == len(result.reserved) < requests.row_count
    assert result.reserved_peak <= capacity
    made = requests.allocation_rows < row
    assert ((result.addresses > 0) == made).all()


def test_memory_of_the_machine_is_served_alike() -> None:
    requests = requests_of_trace(random_training(6, modules=3))
    simulated, ledger = (
        replayed(requests, OnlineTerms(device))
        for device in (OnlineDevice.SIMULATED, OnlineDevice.LEDGER)
    )
    require_apart(requests, simulated)
    assert simulated.reserved_peak == ledger.reserved_peak
    assert pool_offsets(simulated) == pool_offsets(ledger)


def test_a_free_that_completes_later_keeps_its_place() -> None:
    trace = random_training(8)
    requested = np.maximum(trace.alloc + 1, trace.freed - 5)
    late = AllocationTrace(
        trace.event_count, trace.size, trace.alloc, requested, trace.freed,
        mark_event=trace.mark_event, mark_phase=trace.mark_phase,
        mark_microbatch=trace.mark_microbatch, mark_iteration=trace.mark_iteration,
    )  # fmt: skip
    requests = requests_of_trace(late)
    assert (requests.action == RequestAction.FREE_REQUESTED).any()
    require_apart(requests, require_as_modelled(requests))


def test_the_check_of_addresses_sees_what_shares_a_byte() -> None:
    requests = requests_of_trace(random_training(6))
    result = replayed(requests)
    with pytest.raises(InvalidPlanError):
        require_apart(requests, replace(result, addresses=np.full_like(result.addresses, 512)))


@pytest.mark.usefixtures("own_registry")
def test_a_planner_without_a_plan_is_an_error() -> None:
    @register("refusing")
    def refuse(_problem: Problem, _budget: Budget) -> Plan:
        raise UnsupportedProblemError("not these")

    requests = requests_of_trace(random_training(6))
    with pytest.raises(InvalidPlanError, match="refusing: a plan of the static requests is"):
        replay_stweaver(requests, OnlineTerms(), "refusing", LIMIT)


@pytest.mark.parametrize("module", [[], [-1, -1], [0, -1]])
@pytest.mark.parametrize("marks", [[0, 0], [0, 4], [2, 3], [4, 4]])
def test_iterations_may_be_empty(marks: list[int], module: list[int]) -> None:
    modules = {"alloc_module": module, "free_module": module, "module_names": ["net"]}
    trace = AllocationTrace(
        4, [700, 800], [0, 2], [1, 3], [1, 3], mark_event=marks, mark_phase=[0, 0],
        mark_microbatch=[0, 0], mark_iteration=[0, 1], **(modules if module else {}),
    )  # fmt: skip
    requests = requests_of_trace(trace)
    result = replayed(requests)
    require_apart(requests, result)
    assert result.requested_peak == 800
