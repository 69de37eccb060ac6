"""Training on two GPUs: memory goes from one to the other, bit for bit as with PyTorch's own."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.gpu_runtime.own_processes import answer_of

pytestmark = pytest.mark.gpus

run = partial(answer_of, "tests.gpu_runtime.allocator.two_gpu_programs")


def require_same(native: Any, planned: Any) -> None:
    assert planned["losses"] == native["losses"]
    assert planned["parameters"] == native["parameters"]
    report = planned["report"]
    assert report["planned_steps"] >= 4
    assert report["planned_requests"] > 100


def test_a_model_on_two_gpus_of_one_process() -> None:
    require_same(run("one_process", "native"), run("one_process", "planned"))


# By the variable NCCL is given all memory of PyTorch's to register, which mapped pages refuse.
@pytest.mark.parametrize(
    ("allocator", "environment"),
    [
        ("planned", {}),
        ("plain", {}),
        ("plain", {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1"}),
    ],
    ids=["mapped", "plain", "plain and registered"],
)
def test_a_copy_of_the_model_on_each_gpu(allocator: str, environment: dict[str, str]) -> None:
    native = run("one_process_a_gpu", "native")["ranks"]
    planned = run("one_process_a_gpu", allocator, **environment)["ranks"]
    for one, other in zip(native, planned, strict=True):
        require_same(one, other)
    assert planned[0]["parameters"] == planned[1]["parameters"]
    assert planned[0]["losses"] != planned[1]["losses"]


def test_one_process_pauses_while_the_other_works() -> None:
    native = run("pause_of_one", "native")["ranks"]
    planned = run("pause_of_one", "planned")["ranks"]
    for one, other in zip(native, planned, strict=True):
        require_same(one, other)
    assert planned[0]["given"] == planned[0]["paused"] > 0


def test_a_planned_tensor_is_shared_with_the_other_process() -> None:
    native = run("shared_by_ipc", "native")["ranks"]
    planned = run("shared_by_ipc", "plain")["ranks"]
    for one, other in zip(native, planned, strict=True):
        require_same(one, other)
    assert len(planned[1]["losses"]) == len(planned[0]["losses"]) + 1
