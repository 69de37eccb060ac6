"""What a study registers is gone when a test ends."""

from __future__ import annotations

import pytest

from planners import registry


@pytest.fixture(autouse=True)
def _registry_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take out what a plugin brings, so that the next test may bring it again."""
    registry.load_entry_points()
    monkeypatch.setattr("evaluation.study.plugins._loaded", {})
    monkeypatch.setattr(registry, "_planners", dict(registry._planners))
    monkeypatch.setattr(registry, "_online", dict(registry._online))
