"""The roles of blocks, of programs whose gradients and states are known to the byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpu_runtime.fitting.live_peak import Kind, find_live_peak
from instances.extract.own.own_function import find_own_function
from instances.extract.record.own_extraction import trace_own
from instances.traces.allocation_trace import AllocationTrace, Role
from tests.instances.extract.own.user_scripts import written

pytestmark = pytest.mark.torch

WEIGHTS = 4 * 300 * 200
PROGRAM = """
import torch


def make_step(optimizer="AdamW", to_none=True, closure=False, dtype="float32"):
    layer = torch.nn.Linear(300, 200, bias=False, dtype=getattr(torch, dtype)).to("cuda")
    with_lr = getattr(torch.optim, optimizer)(layer.parameters(), lr=0.1)

    def run():
        with_lr.zero_grad(set_to_none=to_none)
        loss = layer(torch.ones(4, 300, device="cuda", dtype=layer.weight.dtype)).sum()
        loss.backward()
        return loss

    def step():
        if not closure:
            run()
        with_lr.step(*[run] * closure)

    return step
"""


def traced(folder: Path, *settings: str) -> AllocationTrace:
    name = f"{written(folder, PROGRAM)}:make_step"
    return trace_own(find_own_function(name, settings), 3)


def sizes(trace: AllocationTrace, role: Role) -> list[int]:
    return trace.size[trace.role == role].tolist()


@pytest.mark.parametrize(
    ("settings", "gradients", "states", "updates"),
    [
        ([], 3, 2, 3),
        # Gradients are kept, so the first is the only one.
        (["to_none=False"], 1, 2, 3),
        (["optimizer=SGD"], 3, 0, 0),
        # The closure's allocations do not belong to the update.
        (["closure=True"], 3, 2, 0),
    ],
)
def test_each_role_has_the_bytes_of_the_weights(
    settings: list[str], gradients: int, states: int, updates: int, tmp_path: Path
) -> None:
    trace = traced(tmp_path, *settings)
    assert sizes(trace, Role.GRADIENT) == [WEIGHTS] * gradients
    assert sizes(trace, Role.STATE) == [WEIGHTS] * states
    assert sizes(trace, Role.UPDATE) == [WEIGHTS] * updates
    wide = trace.element_bytes[trace.role == Role.STATE]
    assert wide.tolist() == [4] * states
    assert not trace.element_bytes[trace.role != Role.STATE].any()


def test_a_state_of_another_shape_than_its_weights_has_no_elements(tmp_path: Path) -> None:
    """Adafactor keeps a sum of each row and of each column."""
    trace = traced(tmp_path, "optimizer=Adafactor")
    assert sorted(sizes(trace, Role.STATE)) == [4 * 200, 4 * 300]
    assert not trace.element_bytes.any()


def test_states_are_as_wide_as_their_elements(tmp_path: Path) -> None:
    trace = traced(tmp_path, "dtype=bfloat16")
    assert np.unique(trace.element_bytes).tolist() == [0, 2]


def test_the_peak_of_a_program_is_told_by_kind_to_the_byte(tmp_path: Path) -> None:
    """In the first update: a weight, its gradient, two states, what the update makes of them.

    cuBLAS keeps 32 MiB for the forward pass, and 32 MiB for the backward pass.
    """
    peak = find_live_peak(traced(tmp_path))
    assert (peak.step, peak.phase) == (1, "optimizer")
    assert {one.kind: (one.size, one.blocks) for one in peak.kinds} == {
        Kind.WEIGHTS: (WEIGHTS, 1),
        Kind.GRADIENTS: (WEIGHTS, 1),
        Kind.OPTIMIZER_STATES: (2 * WEIGHTS, 2),
        Kind.TEMPORARIES: (WEIGHTS, 1),
        Kind.KEPT: (64 << 20, 2),
    }
