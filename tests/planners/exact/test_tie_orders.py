"""Orders of blocks by what their tensors cross, and that CP-SAT finds tight plans by them."""

from __future__ import annotations

import pytest

from instances.synthetic import tight_capacity
from planners import Budget, Problem, Status, run
from planners.exact.common_unit import scale_blocks
from planners.exact.cp_sat.tie_orders import TIE_ORDERS, blocks_in_order
from planners.exact.sections import sections_of
from planners.model.columns import IntColumn

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
