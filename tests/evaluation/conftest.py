"""What a study registers is gone when a test ends."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_plugin_is_loaded(own_registry: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """Take out what a plugin brings, so that the next test may bring it again."""
    monkeypatch.setattr("evaluation.study.plugins._loaded", {})
