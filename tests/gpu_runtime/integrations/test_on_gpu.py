"""Programs as people write them, on a GPU: bit for bit what PyTorch's own allocator gives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_runtime.integrations.both_allocators import run_both

pytestmark = pytest.mark.gpu


def same_bits(name: str) -> dict[str, Any]:
    """Run a program under both allocators; return what it came to under ours."""
    native, planned = run_both(name, "cuda")
    assert planned["losses"] == native["losses"] != []
    assert planned["parameters"] == native["parameters"] != ""
    return planned


def same_bits_by_plan(name: str) -> dict[str, Any]:
    """Run a program under both allocators; return what it came to where a plan served it."""
    planned = same_bits(name)
    report = planned["report"]
    assert report["planned_steps"] >= 3
    assert report["planned_requests"] > 100
    return planned


def test_a_plain_loop() -> None:
    same_bits_by_plan("plain_loop")


def test_accumulation_in_a_step() -> None:
    same_bits_by_plan("accumulation_in_a_step")


def test_accumulation_over_steps() -> None:
    same_bits_by_plan("accumulation_over_steps")


def test_a_checkpoint_is_resumed() -> None:
    same_bits_by_plan("checkpoint_and_resume")


def test_a_compiled_model() -> None:
    same_bits_by_plan("compiled")


def test_autocast() -> None:
    same_bits_by_plan("autocast")


def test_activation_checkpointing() -> None:
    same_bits_by_plan("activation_checkpointing")


def test_forked_workers() -> None:
    same_bits_by_plan("workers_forked")


def test_spawned_workers() -> None:
    same_bits_by_plan("workers_spawned")


def test_threads_beside_the_one_that_trains() -> None:
    # The others' requests come at another time in every step: no kind repeats, a heap serves.
    planned = same_bits("threads")
    assert planned["wrong"] == []
    assert planned["report"]["steps"] == 10


def test_an_interrupted_cell() -> None:
    same_bits_by_plan("interrupted_cell")


def test_the_trainer_with_memory_metrics() -> None:
    metrics = same_bits_by_plan("trainer")["metrics"]
    assert "train_mem_gpu_alloc_delta" in metrics
    assert "train_mem_gpu_peaked_delta" in metrics


def test_the_trainer_resumes() -> None:
    same_bits_by_plan("trainer_resumed")


def test_the_trainer_is_interrupted_and_trains_again() -> None:
    assert same_bits_by_plan("trainer_interrupted")["interrupted"] == "KeyboardInterrupt"


def test_lightning() -> None:
    same_bits_by_plan("lightning")


def test_a_cuda_graph_is_replayed_in_steps() -> None:
    same_bits_by_plan("cuda_graph")


def test_a_model_compiled_to_cuda_graphs() -> None:
    same_bits_by_plan("reduce_overhead")


def test_a_memory_pool_in_steps() -> None:
    same_bits_by_plan("pool")
