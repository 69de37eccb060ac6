"""Ctrl-C at a given attempt, without a clock."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from planners.greedy.place import place_blocks
from planners.search import incumbent as module


def interrupt_after(monkeypatch: pytest.MonkeyPatch, attempts: int) -> None:
    """Let so many orders be placed, and interrupt the one after them."""
    stop_after(monkeypatch, attempts, KeyboardInterrupt)


def stop_after(monkeypatch: pytest.MonkeyPatch, attempts: int, error: type[BaseException]) -> None:
    """Let so many orders be placed, and raise an error at the one after them."""
    made = itertools.count()

    def place(*arguments: Any, **keywords: Any) -> Any:
        if next(made) == attempts:
            raise error
        return place_blocks(*arguments, **keywords)

    monkeypatch.setattr(module, "place_blocks", place)
