"""CP-SAT's model: what it refuses, and that it does so before it costs anything."""

from __future__ import annotations

import numpy as np
import pytest
from ortools.sat.python import cp_model

from planners import Budget, Problem
from planners.exact.common_unit import scale_blocks
from planners.exact.cp_sat import offset_model
from planners.exact.cp_sat.offset_model import build_model
from planners.exact.model_limits import ModelTooLargeError

LIFETIMES = Problem([4, 4, 0, 4], [0, 1, 2, 3], [2, 3, 4, 5], gaps=[(3, 3, 4)])
PAIRS = Problem([4, 4, 4], unsafe_pairs=[(0, 1), (1, 2)])


def build(model: cp_model.CpModel, problem: Problem, budget: Budget) -> None:
    scaled = scale_blocks(problem)
    heads = 4 * np.arange(scaled.count)
    build_model(model, problem, scaled, heads, (0, 99), budget, decide=False)


@pytest.mark.parametrize(
    ("problem", "limit", "most", "message"),
    [
        (LIFETIMES, "MOST_RECTANGLES", 2, "3 rectangles, and takes 2 at most"),
        (PAIRS, "MOST_PAIRS", 1, "2 unsafe pairs, and takes 1 at most"),
    ],
)
def test_a_model_too_large_is_refused_before_its_first_variable(
    monkeypatch: pytest.MonkeyPatch, problem: Problem, limit: str, most: int, message: str
) -> None:
    monkeypatch.setattr(offset_model, limit, most)
    model = cp_model.CpModel()
    with pytest.raises(ModelTooLargeError, match=message):
        build(model, problem, Budget())
    assert len(model.proto.variables) == 0
    monkeypatch.setattr(offset_model, limit, most + 1)
    build(model, problem, Budget())
    assert len(model.proto.variables) > 0


def test_variables_are_not_made_once_the_time_is_over() -> None:
    model = cp_model.CpModel()
    with pytest.raises(TimeoutError):
        build(model, LIFETIMES, Budget(time_limit_seconds=0).started())
    assert len(model.proto.variables) == 1
