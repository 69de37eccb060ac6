"""When most is alive, and what lives then, in traces whose answer can be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpu_runtime.fitting.live_peak import BEFORE, EARLIER, LiveGroup, find_live_peak
from instances.traces.allocation_trace import NO_MODULE, AllocationTrace, Phase
from instances.traces.trace_requests import requests_of_trace
from tests.gpu_runtime.replaying.recordings import random_trace


def two_steps(**changes: Any) -> AllocationTrace:
    """Return a weight, a state of the first step, and blocks of two layers in the second.

    event     0  1  2  3  4  5  6  7  8  9  10 11
    weight    [--------------------------------->   100, before the steps
    state           [--------------------------->    50, of the first optimizer
    layer 0                  [---------)            20
    layer 1                     [------)            30
    gradient                       ^  [--)          25, when the layers have gone
    """
    columns: dict[str, Any] = {
        "event_count": 12,
        "size": [100, 50, 20, 30, 25],
        "alloc": [0, 2, 5, 6, 9],
        "free_requested": [12, 12, 8, 8, 10],
        "freed": [12, 12, 8, 8, 10],
        "alloc_module": [NO_MODULE, NO_MODULE, 0, 1, 0],
        "module_names": ["Net.layers.0.act", "Net.layers.1.act"],
        "mark_event": [1, 1, 1, 4, 7, 11],
        "mark_phase": [Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER] * 2,
        "mark_microbatch": [0] * 6,
        "mark_iteration": [0, 0, 0, 1, 1, 1],
    }
    return AllocationTrace(**{**columns, **changes})


def test_layers_of_one_kind_are_told_of_together() -> None:
    peak = find_live_peak(two_steps())
    assert (peak.size, peak.step, peak.phase) == (200, 2, "forward")
    assert peak.groups == (
        LiveGroup(BEFORE, "", 100, 1),
        LiveGroup(EARLIER, "", 50, 1),
        LiveGroup("forward", "Net.layers.*.act", 50, 2),
    )


def test_a_phase_of_the_peaks_own_step_is_named() -> None:
    peak = find_live_peak(two_steps(size=[100, 50, 20, 30, 75]))
    assert (peak.size, peak.phase) == (225, "backward")
    assert LiveGroup("backward", "Net.layers.*.act", 75, 1) in peak.groups


def test_a_block_that_is_freed_late_is_alive_until_the_program_lets_go() -> None:
    late = find_live_peak(two_steps(freed=[12, 12, 11, 11, 10]))
    assert late == find_live_peak(two_steps())


def test_what_was_there_before_the_trace_is_there() -> None:
    trace = AllocationTrace(3, [7, 5], [0, 1], [3, 3], [3, 3], before=[True, False])
    peak = find_live_peak(trace)
    assert (peak.size, peak.step, peak.phase) == (12, 0, "")
    assert peak.groups == (LiveGroup(BEFORE, "", 12, 2),)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_the_replays_call_the_peak_of_requests(seed: int) -> None:
    trace = random_trace(seed)
    requests = requests_of_trace(trace)
    peak = find_live_peak(trace)
    assert peak.size == int(np.max(requests.live_bytes(requests.size)))
    assert sum(group.size for group in peak.groups) == peak.size
