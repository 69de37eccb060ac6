"""CP-SAT's model: what it refuses before that costs anything, and the orders of its ties."""

from __future__ import annotations

import numpy as np
import pytest
from ortools.sat.python import cp_model

from instances.synthetic import tight_capacity
from planners import Budget, Problem, Status, run
from planners.exact.common_unit import scale_blocks
from planners.exact.cp_sat import offset_model
from planners.exact.cp_sat.offset_model import TIE_ORDERS, blocks_in_order, build_model
from planners.exact.model_limits import ModelTooLargeError
from planners.exact.sections import sections_of
from planners.model.columns import IntColumn

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


# 0 | aaaa      |
# 1 |   bbbbbbb |
# 2 |       cc  |
STAIRS = Problem([4, 2, 1], [0, 2, 6], [4, 9, 8])


def order_of(problem: Problem, *keys: str) -> list[int]:
    live: list[IntColumn] = sections_of(problem).live_sets()
    return list(blocks_in_order(problem, scale_blocks(problem), live, keys))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("total", [0, 1, 2]),
        ("sections", [1, 0, 2]),
        ("lifetime", [1, 0, 2]),
        ("area", [0, 1, 2]),
        ("size", [0, 1, 2]),
        ("early start", [0, 1, 2]),
        ("late start", [2, 0, 1]),
        ("early end", [0, 1, 2]),
        ("late end", [1, 2, 0]),
    ],
)
def test_each_key(key: str, expected: list[int]) -> None:
    assert order_of(STAIRS, key) == expected


def test_a_chain_is_one_block_with_all_that_its_tensors_cross() -> None:
    chained = Problem(STAIRS.size, STAIRS.start, STAIRS.end, contiguous=[(2, 0)])
    chain, alone = chained.blocks.block_of[0], chained.blocks.block_of[1]
    assert chained.blocks.block_of[2] == chain
    assert order_of(chained, "early start") == [chain, alone]
    assert order_of(chained, "lifetime") == [alone, chain]
    assert order_of(chained, "area") == [chain, alone]


def test_every_order_is_one_of_all_blocks() -> None:
    problem = tight_capacity(50, seed=3)
    live = sections_of(problem).live_sets()
    for keys in TIE_ORDERS:
        order = blocks_in_order(problem, scale_blocks(problem), live, keys)
        assert sorted(order.tolist()) == list(range(problem.blocks.count))


@pytest.mark.parametrize("seed", [1, 2])
def test_cp_sat_fills_a_memory_that_greedy_plans_do_not(seed: int) -> None:
    problem = tight_capacity(110, seed=seed)
    result = run(problem, "cp-sat", Budget(node_limit=1_000))
    assert result.status is Status.OPTIMAL
    assert tuple(str(result.statistics["order"]).split(", ")) in TIE_ORDERS
