"""Programs as people write them, on a GPU: bit for bit what PyTorch's own allocator gives."""

from __future__ import annotations

import pytest

from tests.gpu_runtime.integrations.both_allocators import run_both

pytestmark = pytest.mark.gpu


# The fewest steps that follow a plan. Batches that a loader brings between steps may lie in the
# places of the next step.
PLANNED = {
    "plain_loop": 3,
    "inline_loop": 1,
    "accumulation_in_a_step": 3,
    # Kinds of step in turn are known when the run is over.
    "accumulation_over_steps": 0,
    "checkpoint_and_resume": 3,
    "compiled": 3,
    "autocast": 3,
    "activation_checkpointing": 3,
    "workers_forked": 0,
    "workers_spawned": 0,
    # The others' requests come at another time in every step: the heap serves.
    "threads": 0,
    "interrupted_cell": 3,
    "trainer": 0,
    "trainer_resumed": 0,
    "trainer_interrupted": 0,
    "lightning": 0,
    "reduce_overhead": 3,
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
