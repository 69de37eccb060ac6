"""The record of a machine that hides parts of itself."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from evaluation.study import surroundings


def test_a_container_without_proc_has_the_architecture_as_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "CPU_INFO", tmp_path / "none")
    assert surroundings.processor() == platform.machine()
