"""Training on two GPUs: memory goes from one to the other, bit for bit as with PyTorch's own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.repository import ROOT

pytestmark = pytest.mark.gpus

PROGRAMS = "tests.gpu_runtime.allocator.two_gpu_programs"


def run(program: str, allocator: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", PROGRAMS, program, allocator],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def require_same(native: Any, planned: Any) -> None:
    assert planned["losses"] == native["losses"]
    assert planned["parameters"] == native["parameters"]
    report = planned["report"]
    assert report["planned_steps"] >= 5
    assert report["planned_requests"] > 100
    assert report["fallback_requests"] == report["missing_requests"] == 0


def test_a_model_on_two_gpus_of_one_process() -> None:
    require_same(run("one_process", "native"), run("one_process", "planned"))


def test_a_copy_of_the_model_on_each_gpu() -> None:
    native = run("one_process_a_gpu", "native")["ranks"]
    planned = run("one_process_a_gpu", "planned")["ranks"]
    for one, other in zip(native, planned, strict=True):
        require_same(one, other)
    assert planned[0]["parameters"] == planned[1]["parameters"]
    assert planned[0]["losses"] != planned[1]["losses"]
