"""Programs of a process a GPU: each plans its own, bit for bit as with PyTorch's own allocator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu_runtime.integrations.both_allocators import run_on_two

pytestmark = pytest.mark.gpus


def require_same_bits(name: str, folder: Path, *, may_refuse: bool = False) -> None:
    """With `may_refuse`, a trial may find that a plan costs more than it saves."""
    for native, planned in zip(*run_on_two(name, "cuda", folder), strict=True):
        assert planned["losses"] == native["losses"] != []
        assert planned["parameters"] == native["parameters"] != ""
        report = planned["report"]
        if may_refuse and not report["planned_steps"]:
            assert "in a trial" in report["reason"], report
            continue
        # A trial decides after some steps, so only one planned step is certain.
        assert report["planned_steps"] >= 1, report
        assert report["planned_requests"] > 100


def test_data_parallel(tmp_path: Path) -> None:
    require_same_bits("data_parallel", tmp_path)


def test_fully_sharded(tmp_path: Path) -> None:
    require_same_bits("fully_sharded", tmp_path)


def test_fully_sharded_with_checkpointing(tmp_path: Path) -> None:
    require_same_bits("fully_sharded_with_checkpointing", tmp_path)


def test_the_trainer_data_parallel(tmp_path: Path) -> None:
    require_same_bits("trainer", tmp_path)


def test_lightning_data_parallel(tmp_path: Path) -> None:
    # Its steps are of three kinds and a few megabytes.
    require_same_bits("lightning", tmp_path, may_refuse=True)
