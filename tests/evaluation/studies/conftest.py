"""Planners of a study's own are registered for one test, and gone after it."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import pytest

from evaluation.study.study_file import FOLDER as STUDIES
from planners import registry
from planners.registry import choose_online


@pytest.fixture
def bring(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what loads a plugin of the studies."""
    # All that is known is there before, and the registries are as before when a test ends.
    choose_online("*")
    for known in ("PLANNERS", "ONLINE_ALLOCATORS"):
        monkeypatch.setattr(registry, known, copy(getattr(registry, known)))

    def load(name: str) -> None:
        registry.load_plugin(STUDIES / f"{name}.py")

    return load
