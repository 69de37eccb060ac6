"""When most is alive, and what lives then, in traces whose answer can be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpu_runtime.fitting.live_peak import (
    BEFORE,
    EARLIER,
    Kind,
    LiveGroup,
    LiveKind,
    find_live_peak,
)
from instances.traces.allocation_trace import NO_MODULE, AllocationTrace, Phase, Role
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


def test_each_part_of_a_run_has_a_peak_of_its_own() -> None:
    assert find_live_peak(two_steps()).parts == (100, 150, 200)
    # A run that ends with its first step, and one without any.
    marks = {name: [] for name in ("mark_event", "mark_phase", "mark_microbatch", "mark_iteration")}
    assert find_live_peak(two_steps(**marks)).parts == (200, 0, 0)
    one = {"mark_iteration": [0] * 6}
    assert find_live_peak(two_steps(**one)).parts == (100, 200, 0)


def test_a_phase_of_the_peaks_own_step_is_named() -> None:
    peak = find_live_peak(two_steps(size=[100, 50, 20, 30, 75]))
    assert (peak.size, peak.phase) == (225, "backward")
    assert LiveGroup("backward", "Net.layers.*.act", 75, 1) in peak.groups


def test_a_block_that_is_freed_late_is_alive_until_the_program_lets_go() -> None:
    late = find_live_peak(two_steps(freed=[12, 12, 11, 11, 10]))
    assert late == find_live_peak(two_steps())


def test_blocks_from_before_the_trace_count() -> None:
    trace = AllocationTrace(3, [7, 5], [0, 1], [3, 3], [3, 3], before=[True, False])
    peak = find_live_peak(trace)
    assert (peak.size, peak.step, peak.phase) == (12, 0, "")
    assert peak.groups == (LiveGroup(BEFORE, "", 12, 2),)


def test_blocks_are_told_by_what_they_hold() -> None:
    """A step in which each kind lives at the peak with bytes of its own.

    event      0  1  2  3  4  5  6  7  8  9  10 11 12 13
    marks         F        B     O     F        B  O
    1          [------------------------------------>   before the steps: weights
    2             [--------------------------------->   never freed, of an earlier step: kept
    4                         [--------------------->   the optimizer's: state
    8                            [--)                   given back within the update: not alive
    16                                [---------)       before the first module: input
    32                                   [------)       in a module, until backward: activation
    64                                         [---->   a gradient
    128                                           [)    all others: temporary
    256                                     [------->   never freed: kept
    """
    trace = AllocationTrace(
        15,
        [1, 2, 4, 8, 16, 32, 256, 64, 128],
        [0, 2, 7, 8, 10, 11, 11, 13, 13],
        [15, 15, 15, 9, 14, 14, 15, 15, 14],
        [15, 15, 15, 9, 14, 14, 15, 15, 14],
        role=[0, 0, Role.STATE, Role.UPDATE, 0, 0, 0, Role.GRADIENT, 0],
        alloc_module=[NO_MODULE, 0, NO_MODULE, NO_MODULE, NO_MODULE, 0, 0, 0, 0],
        module_names=["Net"],
        mark_event=[1, 4, 6, 9, 12, 14],
        mark_phase=[Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER] * 2,
        mark_microbatch=[0] * 6,
        mark_iteration=[0, 0, 0, 1, 1, 1],
    )
    assert {one.kind: one.size for one in find_live_peak(trace).kinds} == {
        Kind.TEMPORARIES: 128, Kind.GRADIENTS: 64, Kind.ACTIVATIONS: 32, Kind.INPUTS: 16,
        Kind.OPTIMIZER_STATES: 4, Kind.KEPT: 258, Kind.WEIGHTS: 1,
    }  # fmt: skip


def test_a_block_of_a_forward_pass_that_ends_in_it_is_temporary() -> None:
    """At the peak in the forward pass, layer 1 of the two layers ends before the backward pass."""
    peak = find_live_peak(two_steps(free_requested=[12, 12, 8, 7, 10], freed=[12, 12, 8, 7, 10],
                                    mark_event=[1, 1, 1, 4, 8, 11]))  # fmt: skip
    assert (peak.size, peak.phase) == (200, "forward")
    assert peak.kinds == (
        LiveKind(Kind.WEIGHTS, 100, 1), LiveKind(Kind.KEPT, 50, 1),
        LiveKind(Kind.TEMPORARIES, 30, 1), LiveKind(Kind.ACTIVATIONS, 20, 1),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_the_replays_call_the_peak_of_requests(seed: int) -> None:
    trace = random_trace(seed)
    requests = requests_of_trace(trace)
    peak = find_live_peak(trace)
    assert peak.size == int(np.max(requests.live_bytes(requests.size)))
    assert sum(group.size for group in peak.groups) == peak.size
    assert sum(one.size for one in peak.kinds) == peak.size
