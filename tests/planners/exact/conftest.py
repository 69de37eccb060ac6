"""What the tests of all exact planners share."""

from __future__ import annotations

import random

import pytest

from planners import Problem
from planners.exact import plan_exactly
from tests.planners.exact.weak_start import weak_start, worst_start


@pytest.fixture
def weakly_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave everything to the search: no good plan and no bound to start from."""
    monkeypatch.setattr(plan_exactly, "warm_incumbent", weak_start)


@pytest.fixture
def worst_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave even more to the search: a plan in which no byte is used twice."""
    monkeypatch.setattr(plan_exactly, "warm_incumbent", worst_start)


@pytest.fixture
def hard() -> Problem:
    """Far more than any exact planner gets through in a second."""
    rng = random.Random(11)
    tensors = 70
    pairs = [(a, b) for a in range(tensors) for b in range(a) if rng.random() < 0.4]
    return Problem([rng.randint(1, 10_000) for _ in range(tensors)], unsafe_pairs=pairs)
