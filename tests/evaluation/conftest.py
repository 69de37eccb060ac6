"""What a study registers is gone when a test ends."""

from __future__ import annotations

from copy import copy

import pytest

from planners import registry


@pytest.fixture(autouse=True)
def _registry_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take out what a plugin brings, so that the next test may bring it again."""
    registry.load_entry_points()
    monkeypatch.setattr("evaluation.study.plugins._loaded", {})
    monkeypatch.setattr(registry, "PLANNERS", copy(registry.PLANNERS))
    monkeypatch.setattr(registry, "ONLINE_ALLOCATORS", copy(registry.ONLINE_ALLOCATORS))
