"""A trace whose optimizer keeps its states in 8 bits, against counts by hand and a program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpu_runtime.fitting.eight_bit_states import with_eight_bit_states
from gpu_runtime.fitting.live_peak import Kind, find_live_peak
from instances.extract.own.own_function import find_own_function
from instances.extract.record.own_extraction import trace_own
from instances.traces.allocation_trace import AllocationTrace, Role
from tests.instances.extract.own.user_scripts import written

# bitsandbytes' AdamW8bit, as far as it allocates.
IN_EIGHT_BITS = """
import torch


class AdamW8bit(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            state, count = self.state[parameter], parameter.numel()
            for name in ("first", "second") if not state else ():
                dtype, device = torch.float32 if count < 4096 else torch.uint8, parameter.device
                state[name] = torch.zeros(count, dtype=dtype, device=device)
                if dtype is torch.uint8:
                    state[f"{name} scales"] = torch.zeros((count + 255) // 256, device=device)


def make_step(eight_bits=True, width=100):
    layers = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Linear(width, 2)).cuda()
    optimizer = AdamW8bit if eight_bits else torch.optim.AdamW
    optimizer = optimizer(layers.parameters())

    def step():
        layers(torch.ones(4, width, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
"""


def test_blocks_have_the_sizes_of_eight_bit_states() -> None:
    """Two states of 16 and of 32 bits, one that is small, one of another shape, an update."""
    trace = AllocationTrace(
        20,
        [2 * 5000, 4 * 4096, 4 * 4095, 999, 7777, 123],
        [0, 1, 2, 3, 4, 6],
        [20, 20, 20, 20, 5, 20],
        [20, 20, 20, 20, 5, 20],
        role=[Role.STATE, Role.STATE, Role.STATE, Role.STATE, Role.UPDATE, Role.NONE],
        element_bytes=[2, 4, 4, 0, 0, 0],
    )
    narrow = with_eight_bit_states(trace)
    assert narrow.size.tolist() == [5000, 4 * 20, 4096, 4 * 16, 4 * 4095, 999, 123]
    assert narrow.alloc.tolist() == [0, 0, 1, 1, 2, 3, 6]


@pytest.mark.torch
def test_sizes_are_those_of_such_an_optimizer(tmp_path: Path) -> None:
    name = f"{written(tmp_path, IN_EIGHT_BITS)}:make_step"
    narrow = trace_own(find_own_function(name), 3)
    replayed = with_eight_bit_states(trace_own(find_own_function(name, ["eight_bits=False"]), 3))
    states = [
        np.sort(trace.size[trace.role == Role.STATE]).tolist() for trace in (narrow, replayed)
    ]
    assert states[0] == states[1]
    peaks = find_live_peak(narrow), find_live_peak(replayed)
    assert peaks[0].kinds == peaks[1].kinds
    assert {one.kind for one in peaks[0].kinds} >= {Kind.OPTIMIZER_STATES, Kind.WEIGHTS, Kind.KEPT}
