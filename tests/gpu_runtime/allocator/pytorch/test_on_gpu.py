"""Everything of PyTorch that has to do with memory, while a plan serves on a GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_runtime.online.online_allocators import CORE
from tests.gpu_runtime.own_processes import outputs_of

pytestmark = pytest.mark.gpu

PROGRAMS = "tests.gpu_runtime.allocator.pytorch.gpu_programs"
ONLINE_PROGRAMS = "tests.gpu_runtime.allocator.pytorch.online_gpu_programs"

each_online = pytest.mark.parametrize("name", CORE)


def run(program: str, *arguments: str, module: str = PROGRAMS) -> Any:
    """Run a program in a process of its own; the last line it says is JSON."""
    ((said, _),) = outputs_of([[module, program, *arguments]])
    found = json.loads(said.splitlines()[-1])
    require_held(found)
    return found


def require_held(found: dict[str, Any]) -> None:
    """Check every group of figures that are to agree."""
    for name, group in found.items():
        if isinstance(group, dict):
            assert [rule for rule, holds in group.items() if not holds] == [], name


def test_statistics() -> None:
    found = run("statistics")
    assert found["peak of a step"] == 24 << 20
    assert found["after it"] == found["peak after a reset"] == 0
    assert found["requests since a reset"] == 3
    assert found["bytes since a reset"] == 28
    assert found["backend"] == "native"
    assert found["fraction"] == 0.5
    for rule in ("reserved holds allocated", "device holds reserved", "accelerator"):
        assert found[rule], rule
    assert found["summary"]
    assert found["short summary"]
    assert len(found["inside"]) == len(found["outside"]) == len(found["after empty_cache"]) == 20


def test_a_pool_of_the_programs_own() -> None:
    found = run("pool")
    assert found["in the pool"]
    assert found["sum"] == 7 << 20
    assert found["planned again"]


def test_a_graph_is_captured_and_replayed_in_planned_steps() -> None:
    found = run("graph")
    assert found["same bits"] == [True] * 12
    assert found["planned"] >= 6


def test_memory_is_short() -> None:
    found = run("out_of_memory")
    assert found["error"].startswith("CUDA out of memory. Tried to allocate")
    assert found["errors counted"] == found["errors counted later"] == 1
    assert found["beside an idle arena"]


def test_history_and_snapshot() -> None:
    found = run("history")
    assert found["actions"] == ["alloc", "free_requested", "free_completed"]
    for rule in ("of this file", "in order", "dumped", "segments told of"):
        assert found[rule], rule
    assert found["other"] == 1000


def test_another_stream_reads_late() -> None:
    assert run("streams")["wrong"] == []


def test_an_installation_after_cuda_was_used() -> None:
    found = run("installed_late")
    assert found["same"]
    assert found["freed"] == 16
    assert found["loss"]
    assert found["error"].startswith("one installation is enough")


def test_tensors_go_to_another_process() -> None:
    found = run("sharing")
    assert 'arena="cudaMalloc"' in found["error"]
    assert found["received"] == 1 << 20


def test_a_planned_tensor_goes_to_another_process() -> None:
    assert run("sharing_plain") == {"received": [2 * (16 << 20)], "planned": 3}


@each_online
def test_training_under_an_online_allocator_has_the_same_bits(name: str) -> None:
    found = run("training", name, module=ONLINE_PROGRAMS)
    assert [rule for rule, holds in found.items() if not holds] == []
    assert len(found["held"]) == len(found["after empty_cache"]) == 20


@each_online
def test_a_graph_is_captured_and_replayed_under_an_online_allocator(name: str) -> None:
    assert run("graph", name, module=ONLINE_PROGRAMS)["same bits"] == [True] * 3


@each_online
def test_memory_is_short_under_an_online_allocator(name: str) -> None:
    found = run("out_of_memory", name, module=ONLINE_PROGRAMS)
    assert found["error"].startswith("CUDA out of memory. Tried to allocate")
    assert found["errors counted"] == 1
    assert found["goes on"]


@each_online
def test_another_stream_reads_late_under_an_online_allocator(name: str) -> None:
    assert run("streams", name, module=ONLINE_PROGRAMS)["wrong"] == []


@each_online
def test_history_under_an_online_allocator(name: str) -> None:
    found = run("history", name, module=ONLINE_PROGRAMS)
    assert found["actions"] == ["alloc", "free_requested", "free_completed"]
    assert found["of this file"]
    assert found["in a segment"]
