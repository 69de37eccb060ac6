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


def both(model: str, incident: str, planned_steps: int = 4) -> Any:
    """Run under both allocators; return what planned memory reports."""
    native = run("train", "native", model, incident)
    planned = run("train", "planned", model, incident)
    assert planned["steps"] == native["steps"]
    assert planned["errors"] == native["errors"]
    report = planned["report"]
    assert report["status"] in ("optimal", "feasible")
    assert report["planned_steps"] >= planned_steps
    assert report["planned_requests"] > 100
    assert planned["unexpected"][5] == 0
    assert planned["unexpected"][8] == planned["unexpected"][9], "the plan is followed again"
    return planned


@pytest.mark.parametrize("incident", ["none", "empty cache"])
@pytest.mark.parametrize("model", ["mlp", "transformer"])
def test_every_bit_is_the_same(model: str, incident: str) -> None:
    # The third and the fourth step are the first two that are equal.
    report = both(model, incident, planned_steps=6)["report"]
    assert report["unexpected_requests"] == 0
    assert report["mismatches"] == []


@pytest.mark.parametrize("model", ["mlp", "transformer"])
def test_a_step_with_another_batch_size_leaves_its_plan_once(model: str) -> None:
    planned = both(model, "batch")
    assert planned["unexpected"][6] > 0
    mismatches = planned["report"]["mismatches"]
    assert [each["kind"] for each in mismatches if each["step"] == 6] == ["size"]
    assert "gpu_programs.py:" in mismatches[0]["where"]


@pytest.mark.parametrize("incident", ["exception", "out of memory", "out of memory in backward"])
def test_an_error_in_a_step_and_training_goes_on(incident: str) -> None:
    error = "OfOurOwnError" if incident == "exception" else "OutOfMemoryError"
    assert both("transformer", incident)["errors"] == [error]


def test_an_emptied_cache_gives_idle_memory_back() -> None:
    assert run("empty_cache")["given back"] >= 1 << 28


def test_the_thread_of_backward() -> None:
    found = run("backward_thread")
    assert found["own thread"]
    assert found["planned steps"] >= 3
    forward, backward = found["places"]
    assert "gpu_programs.py:" in forward
    assert "Witness.backward" in backward, "the code of the program, in the thread of autograd"


def test_another_stream_reads_late() -> None:
    found = run("side_stream")
    assert found["wrong"] == []
    assert found["shared in planned steps"]
    assert found["planned steps"] >= 8
    assert found["streams"] == 2


def test_tensors_that_are_alive_at_the_end() -> None:
    found = run("exit_with_live_tensors")
    assert found["planned steps"] >= 1
    assert found["escaping"] == 0, "the output lies in the arena"
