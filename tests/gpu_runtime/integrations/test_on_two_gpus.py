"""Programs of a process a GPU: each plans its own, bit for bit as with PyTorch's own allocator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu_runtime.integrations.both_allocators import run_on_two

pytestmark = pytest.mark.gpus


@pytest.mark.parametrize("name", ["fully_sharded", "trainer", "lightning"])
def test_each_process_has_the_same_bits(name: str, tmp_path: Path) -> None:
    for native, planned in zip(*run_on_two(name, "cuda", tmp_path), strict=True):
        assert planned["losses"] == native["losses"] != []
        assert planned["parameters"] == native["parameters"] != ""
        assert planned["report"]["planned_steps"] >= 1, planned["report"]
