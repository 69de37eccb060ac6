"""Planned memory in a replay: iterations are steps, of which the later ones go by a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpu_runtime._core import PlannedAllocator, StepPlan
from gpu_runtime.replaying.planned_replay import replay_planned
from instances.traces.allocation_trace import AllocationTrace, Phase
from instances.traces.trace_requests import requests_of_trace
from planners.errors import UnknownPlannerError
from planners.files.formats import read_requests
from planners.model.online_result import OnlineDevice, OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.registry import choose_online
from tests.gpu_runtime.replaying.recordings import random_trace
from tests.repository import ROOT

TRACES = ROOT / "evaluation" / "studies" / "traces"
MIB = 1 << 20
STEPS = 6


def training(*, marked: bool = True, late: bool = False) -> RequestSequence:
    """Return steps in which 3 MiB are freed under 5 MiB, before 7 MiB are asked for.

    step of 8 events   0   1   2   3   4   5   6   7
    3 MiB                  [-------)
    5 MiB                      [-------------------)
    7 MiB                              [-----------)
    """
    begin = 8 * np.arange(STEPS)
    phases = [Phase.FORWARD] * STEPS
    marks = {
        "mark_event": begin, "mark_phase": phases, "mark_microbatch": [0] * STEPS,
        "mark_iteration": range(STEPS),
    }  # fmt: skip
    alloc = (begin[:, None] + [1, 2, 4]).ravel()
    freed = (begin[:, None] + [3, 7, 7]).ravel()
    completed = freed + late * np.tile([2, 0, 0], STEPS)
    return requests_of_trace(
        AllocationTrace(
            8 * STEPS, [3 * MIB, 5 * MIB, 7 * MIB] * STEPS, alloc, freed, completed,
            **(marks if marked else {}),  # type: ignore[arg-type]
        )
    )  # fmt: skip


def test_steps_are_served_by_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    adopted: list[int] = []
    real = PlannedAllocator.adopt

    def adopt(allocator: PlannedAllocator, plans: list[StepPlan], arena_bytes: int) -> None:
        adopted.append(arena_bytes)
        real(allocator, plans, arena_bytes)

    monkeypatch.setattr(PlannedAllocator, "adopt", adopt)
    result = replay_planned(training(), OnlineTerms(), "greedy-size-best", 5.0)
    # The last call returns the arena.
    assert adopted == [12 * MIB, 0]
    assert result.requested_peak == 12 * MIB
    # One place a request from then on, in every step.
    places = result.addresses.reshape(STEPS, 3)
    assert (places[-2:] == places[-1]).all()


@pytest.mark.parametrize("name", ["pytorch-caching", "planned", "stweaver"])
def test_the_last_iteration_has_a_time_of_its_own(name: str) -> None:
    (chosen,) = choose_online(name)
    requests = training()
    result = chosen.info.build()(requests, OnlineTerms())
    assert requests.last_iteration_row == 6 * (STEPS - 1)
    assert 0 < result.last_iteration_seconds < result.seconds
    ended = chosen.info.build()(requests, OnlineTerms(capacity=MIB))
    assert (ended.out_of_memory_row, ended.last_iteration_seconds) == (0, 0)


@pytest.mark.parametrize("name", ["pytorch-caching", "planned", "stweaver", "vpmm"])
def test_device_calls_are_told_for_each_iteration(name: str) -> None:
    (chosen,) = choose_online(name)
    grown = training()
    size = grown.size.copy()
    # The last iteration asks for a block that no earlier one had.
    size[-1] = 64 * MIB
    told = [
        chosen.info.build()(requests, OnlineTerms()).iteration_calls
        for requests in (training(), replace(grown, size=size))
    ]
    assert [len(calls) for calls in told] == [STEPS, STEPS]
    steady, changed = ([sum(each.values()) for each in calls] for calls in told)
    assert steady[:-1] == changed[:-1]
    assert steady[-1] < changed[-1]
    if name == "pytorch-caching":
        assert (steady, changed[-1]) == ([1, 0, 0, 0, 0, 0], 1)


def test_without_iterations_nothing_is_planned() -> None:
    result = replay_planned(training(marked=False), OnlineTerms(), "auto", 5.0)
    assert result.requested_peak == 12 * MIB
    assert result.not_done.startswith("planned nothing: two marked iterations")


@pytest.mark.parametrize("device", [OnlineDevice.LEDGER, OnlineDevice.SIMULATED])
def test_a_user_of_late_freed_bytes_waits(device: OnlineDevice) -> None:
    terms = OnlineTerms(device)
    late, prompt = (
        replay_planned(training(late=is_late), terms, "greedy-size-best", 5.0)
        for is_late in (True, False)
    )
    first, _, third = late.addresses.reshape(STEPS, 3).T
    taken_early = np.count_nonzero((first < third + 7 * MIB) & (third < first + 3 * MIB))
    assert late.device_calls["make_wait"] == taken_early > 0
    assert "make_wait" not in prompt.device_calls


def test_an_unknown_planner_is_an_error() -> None:
    with pytest.raises(UnknownPlannerError):
        replay_planned(training(), OnlineTerms(), "gredy", 5.0)


# 1/256 is the bound; pages that are partly in use come on top, more of them in a small model.
MOST_OVER_LIVE = {path.stem: 1.013 for path in sorted(TRACES.glob("*.npz"))} | {"resnet-50": 1.018}


@pytest.mark.parametrize("name", MOST_OVER_LIVE)
def test_recorded_training_never_waits_and_reserves_little_more_than_lives(name: str) -> None:
    requests = read_requests(TRACES / f"{name}.npz")
    result = replay_planned(requests, OnlineTerms(), "many-objects-size-best", 2.0)
    assert result.stalls == 0
    assert result.reserved_peak <= MOST_OVER_LIVE[name] * result.allocated_peak


@pytest.mark.parametrize("seed", range(6))
def test_random_training_never_waits(seed: int) -> None:
    requests = requests_of_trace(random_trace(seed, streams=1 + seed % 3))
    result = replay_planned(requests, OnlineTerms(), "many-objects-size-best", 2.0)
    assert result.stalls == 0
