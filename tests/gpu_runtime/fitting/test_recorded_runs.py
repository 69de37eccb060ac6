"""What is said of a training without a GPU is what PyTorch reserved for it on one."""

from __future__ import annotations

import pytest

from gpu_runtime.fitting.replayed_program import ReplayedProgram
from gpu_runtime.fitting.traced_program import AskedProgram
from instances.extract.record.trace_settings import TraceSettings
from planners.registry import choose_online

pytestmark = pytest.mark.torch

# Bytes that PyTorch 2.11 had reserved on an NVIDIA H200 at its peak over three steps.
DEFAULT, EXPANDABLE = 15_378_415_616, 14_277_410_816


def test_bert_reserves_what_it_reserved() -> None:
    # The second step is the first steady one; a third changes nothing.
    program = AskedProgram("bert-base", TraceSettings(2), {"batch": 32, "seq": 512})
    allocators = choose_online("pytorch-caching,pytorch-expandable")
    (fit,) = ReplayedProgram(program, allocators).each_rank({})
    live, *rows = fit.rows
    assert live.reserved_peak == 13_144_504_196
    assert [row.reserved_peak for row in rows] == [DEFAULT, EXPANDABLE]
