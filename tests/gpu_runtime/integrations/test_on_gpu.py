"""Programs as people write them, on a GPU: bit for bit what PyTorch's own allocator gives."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from evaluation.programs.program_list import PROGRAMS
from gpu_runtime.training.run_processes import answer_of
from gpu_runtime.training.run_result import RunResult
from gpu_runtime.training.training_run import Allocator
from tests.gpu_runtime.integrations.both_allocators import run_both

pytestmark = pytest.mark.gpu


# The fewest steps that follow a plan.
PLANNED = {
    "inline_loop": 1,
    "checkpoint_and_resume": 3,
    # The others' requests come at another time in every step: the heap serves.
    "threads": 0,
    "interrupted_cell": 3,
    "trainer": 0,
    "trainer_resumed": 0,
    "trainer_interrupted": 0,
    "lightning": 0,
}


@pytest.mark.parametrize("name", PLANNED)
def test_a_program_has_the_same_bits(name: str) -> None:
    native, planned = run_both(name, "cuda")
    assert planned["losses"] == native["losses"] != []
    assert planned["parameters"] == native["parameters"] != ""
    report = planned["report"]
    assert report["planned_steps"] >= PLANNED[name]
    assert planned.get("wrong", []) == []
    assert planned.get("interrupted", "KeyboardInterrupt") == "KeyboardInterrupt"
    if name == "trainer":
        assert {"train_mem_gpu_alloc_delta", "train_mem_gpu_peaked_delta"} <= {*planned["metrics"]}


@pytest.mark.parametrize(
    "name", ["plain", "data-loader", "microbatches", "accumulate", "compile", "reduce-overhead"]
)
def test_a_listed_program_has_the_same_bits(name: str) -> None:
    run = replace(PROGRAMS[name].check_run(), turn_steps=9)
    native, planned = (
        answer_of(replace(run, allocator=allocator))
        for allocator in (Allocator.DEFAULT, Allocator.PLANNED)
    )
    assert isinstance(native, RunResult), native
    assert isinstance(planned, RunResult), planned
    assert planned.losses == native.losses
    assert planned.parameters == native.parameters
    assert planned.plan is not None
