"""Training on a GPU through planned memory: bit for bit what PyTorch's own allocator gives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gpu_runtime.own_processes import outputs_of

pytestmark = pytest.mark.gpu

PROGRAMS = "tests.gpu_runtime.allocator.gpu_programs"


def run(program: str, *arguments: str) -> Any:
    """Run a program in a process of its own; it says nothing but one line of JSON."""
    # What deterministic algorithms ask of cuBLAS.
    environment = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    ((said, errors),) = outputs_of([[PROGRAMS, program, *arguments]], environment)
    assert errors == ""
    return json.loads(said)


def both(model: str, incident: str) -> tuple[Any, Any]:
    native = run("train", "native", model, incident)
    planned = run("train", "planned", model, incident)
    assert planned["steps"] == native["steps"]
    assert planned["errors"] == native["errors"]
    report = planned["report"]
    assert report["status"] in ("optimal", "feasible")
    assert report["planned_steps"] >= 6
    assert report["planned_requests"] > 100
    return planned, report


@pytest.mark.parametrize("model", ["mlp", "transformer"])
def test_every_bit_is_the_same(model: str) -> None:
    _, report = both(model, "none")
    assert report["fallback_requests"] == report["missing_requests"] == 0


@pytest.mark.parametrize("model", ["mlp", "transformer"])
def test_another_batch_size_falls_back_once(model: str) -> None:
    planned, report = both(model, "batch")
    fallback = planned["fallback"]
    assert fallback[5] == 0 < fallback[6]
    # What the unlike step has left may be in the way once more.
    assert fallback[8] == fallback[9]
    assert report["mismatch_counts"]["size"] > 0
    assert any("gpu_programs.py:" in mismatch["where"] for mismatch in report["mismatches"])


def test_an_error_in_a_step_and_going_on() -> None:
    planned, _ = both("transformer", "exception")
    assert planned["errors"] == ["OfOurOwnError"]
    assert planned["fallback"][9] == planned["fallback"][8]


@pytest.mark.parametrize("incident", ["out of memory", "out of memory in backward"])
def test_memory_is_short_in_a_step_and_training_goes_on(incident: str) -> None:
    planned, _ = both("transformer", incident)
    assert planned["errors"] == ["OutOfMemoryError"]
    assert planned["fallback"][9] == planned["fallback"][8]


def test_the_cache_is_emptied_between_steps() -> None:
    _, report = both("mlp", "empty cache")
    assert report["fallback_requests"] == 0
    assert run("empty_cache")["given back"] >= 1 << 28


def test_the_thread_of_backward() -> None:
    found = run("backward_thread")
    assert found["own thread"]
    assert found["fallback before"] == 0
    assert found["planned"] > 0
    assert found["planned steps"] >= 3
    assert "a thread of autograd" in found["places"]
    assert any("gpu_programs.py:" in place for place in found["places"])


def test_another_stream_reads_late() -> None:
    found = run("side_stream")
    assert found["wrong"] == []
    assert found["shared in planned steps"]
    assert found["planned steps"] >= 8
    assert found["fallback"] == 0
    assert found["streams"] == 2


def test_tensors_that_are_alive_at_the_end() -> None:
    assert run("exit_with_live_tensors")["planned steps"] >= 1
