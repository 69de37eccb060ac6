"""The referee: it finds every violation and says what is wrong; its fast twin says the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import Graph, InvalidPlanError, Plan, Problem, Safety, check, place
from tests.planners.referee.painter import REFEREES, Referee, assert_judged, corrupt
from tests.random_problems import SOLVABLE, random_problem

pytestmark = pytest.mark.core


@pytest.mark.parametrize("safety", Safety)
@given(rng=st.randoms(use_true_random=False))
def test_both_referees_are_the_painter(rng: Random, safety: Safety) -> None:
    problem = random_problem(rng, safety, (0, 8), features=SOLVABLE)
    plan = place(problem)
    assert assert_judged(problem, plan)
    assert_judged(problem, corrupt(rng, problem, plan))


PAIR: dict[str, Any] = {"size": [4, 4], "unsafe_pairs": [(0, 1)]}


@pytest.mark.parametrize("referee", REFEREES)
@pytest.mark.parametrize(
    ("fields", "offsets", "peak", "message"),
    [
        (PAIR, [0], 4, "one offset a tensor is needed, found 1 for 2"),
        (PAIR, [0, -4], 4, "tensor 1: offsets are at least 0, found -4"),
        (PAIR, [0, (1 << 62) + 1], (1 << 62) + 5, "tensor 1: offsets stay below 2**62, found "
         f"{(1 << 62) + 1}"),
        (PAIR, [0, (1 << 63) - 1], 0, "tensor 1: offsets stay below 2**62, found "
         f"{(1 << 63) - 1}"),
        (PAIR, [0, 4], 7, "the peak is the largest offset + size, 8, found 7"),
        (PAIR, [0, 4], 9, "the peak is the largest offset + size, 8, found 9"),
        ({**PAIR, "alignment": [1, 8]}, [0, 4], 8, "tensor 1: the offset must be a multiple of 8, "
         "found 4"),
        ({**PAIR, "pinned": {1: 8}}, [0, 4], 8, "tensor 1: it is pinned to 8, found 4"),
        ({**PAIR, "contiguous": [(1, 0)]}, [5, 0], 9, "tensor 0: its chain puts it at the end of "
         "tensor 1, 4, found 5"),
        (PAIR, [0, 3], 7, "unsafe tensors share bytes: tensor 0 at [0, 4) and tensor 1 at [3, 7)"),
        (PAIR, [3, 0], 7, "unsafe tensors share bytes: tensor 0 at [3, 7) and tensor 1 at [0, 4)"),
        ({**PAIR, "tensor_name": ["w", "x"]}, [0, 0], 4, "unsafe tensors share bytes: tensor 0 (w) "
         "at [0, 4) and tensor 1 (x) at [0, 4)"),
        ({"size": [4, 4], "start": [0, 1], "end": [2, 3]}, [0, 1], 5, "unsafe tensors share bytes: "
         "tensor 0 at [0, 4) and tensor 1 at [1, 5)"),
        ({"size": [4, 4], "graph": Graph(op=["a", "b"], stream=[0, 1], producer=[0, 1],
                                         consumers=[[], []])}, [0, 1], 5,
         "unsafe tensors share bytes: tensor 0 at [0, 4) and tensor 1 at [1, 5)"),
    ],
)  # fmt: skip
def test_each_violation_is_described(
    referee: Referee, fields: dict[str, Any], offsets: list[int], peak: int, message: str
) -> None:
    assert referee(Problem(**fields), Plan(offsets, peak)) == message


@pytest.mark.parametrize("referee", REFEREES)
def test_what_is_no_violation(referee: Referee) -> None:
    # Touching in memory, touching in time, in a gap of the other, and without bytes.
    assert referee(Problem([4, 4], [0, 0], [2, 2]), Plan([0, 4], 8)) is None
    assert referee(Problem([4, 4], [0, 2], [2, 4]), Plan([0, 0], 4)) is None
    in_gap = Problem([4, 4], [0, 2], [6, 4], gaps=[(0, 2, 4)])
    assert referee(in_gap, Plan([0, 0], 4)) is None
    for problem in (
        Problem([4, 0, 0], [0, 0, 0], [9, 9, 9]),
        Problem([4, 0, 0], unsafe_pairs=[(0, 1), (0, 2), (1, 2)]),
        Problem([4, 0, 0], graph=Graph(op=["a"], stream=[0], producer=[0] * 3, consumers=[[]] * 3)),
    ):
        assert referee(problem, Plan([0, 2, 2], 4)) is None
    assert referee(Problem([], [], []), Plan([], 0)) is None
    assert referee(Problem([4], [0], [1], capacity=3), Plan([0], 4)) is None


def test_check_raises_what_the_referee_finds() -> None:
    problem = Problem(**PAIR)
    check(problem, Plan([0, 4], 8))
    with pytest.raises(InvalidPlanError, match="unsafe tensors share bytes: tensor 0 at"):
        check(problem, Plan([0, 0], 4))
