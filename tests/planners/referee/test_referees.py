"""Both referees find every violation, against a painter who paints every byte of every tensor."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from planners import Graph, InvalidPlanError, Plan, Problem, Safety, check, place
from planners.referee.fast import find_violation_fast
from planners.referee.naive import find_violation
from planners.testing.random_problems import SOLVABLE, random_graph, random_problem
from tests import definitions
from tests.slow import in_parts

Referee = Callable[[Problem, Plan], str | None]
REFEREES: list[Referee] = [find_violation, find_violation_fast]


def painted_overlaps(problem: Problem, plan: Plan) -> definitions.Pairs:
    """Return the unsafe pairs that share a byte, by painting every byte of every tensor."""
    painted: dict[int, list[int]] = {}
    for tensor, (offset, size) in enumerate(
        zip(plan.offsets.tolist(), problem.size.tolist(), strict=True)
    ):
        for byte in range(offset, offset + size):
            painted.setdefault(byte, []).append(tensor)
    together = {(a, b) for tensors in painted.values() for b in tensors for a in tensors if a < b}
    return together & definitions.unsafe(problem)


def painted_steps(problem: Problem, plan: Plan) -> bool:
    """Return whether some cell of the picture, time by offset, is painted twice."""
    cells = [
        (step, byte)
        for tensor in range(problem.tensor_count)
        for step in definitions.steps_needed(problem, tensor)
        for byte in range(plan.offsets[tensor], plan.offsets[tensor] + problem.size[tensor])
    ]
    return len(cells) != len(set(cells))


def keeps_conditions(problem: Problem, offsets: list[int]) -> bool:
    """Return whether alignment, pins and chains hold."""
    size = problem.size.tolist()
    return (
        all(at >= 0 for at in offsets)
        and all(at % a == 0 for at, a in zip(offsets, problem.alignment.tolist(), strict=True))
        and all(p in (-1, at) for at, p in zip(offsets, problem.pinned.tolist(), strict=True))
        and all(
            offsets[chain[i + 1]] == offsets[chain[i]] + size[chain[i]]
            for chain in problem.contiguous
            for i in range(len(chain) - 1)
        )
    )


def corrupt(rng: Random, problem: Problem, plan: Plan) -> Plan:
    """Return a plan that may be wrong: blocks moved, tensors moved, or all thrown at random."""
    offsets = plan.offsets.tolist()
    kind = rng.randrange(4)
    blocks = problem.blocks
    if not offsets:
        return plan
    if kind == 0:
        offsets[rng.randrange(len(offsets))] += rng.choice([-8, -1, 1, 3, 8])
    elif kind == 3:
        limit = max(1, int(problem.size.sum()))
        offsets = [rng.randrange(limit) for _ in offsets]
    else:
        for _ in range(rng.randint(1, 3)):
            block = rng.randrange(blocks.count)
            step = int(blocks.modulus[block]) * rng.choice([-2, -1, 1, 2])
            for tensor in blocks.members[blocks.indptr[block] : blocks.indptr[block + 1]]:
                offsets[int(tensor)] += step
    return Plan.of(problem, offsets)


def assert_judged(problem: Problem, plan: Plan) -> bool:
    """Check both referees against the painter, and return whether the plan is valid."""
    offsets = plan.offsets.tolist()
    sound = keeps_conditions(problem, offsets)
    wrong_pairs = painted_overlaps(problem, plan) if sound else set()
    if sound and problem.safety is Safety.LIFETIMES:
        assert painted_steps(problem, plan) == bool(wrong_pairs)
    valid = sound and not wrong_pairs
    for referee in REFEREES:
        violation = referee(problem, plan)
        assert (violation is None) == valid, (referee.__name__, violation)
        if violation is not None and sound:
            assert violation in {described(problem, plan, pair) for pair in wrong_pairs}
    return valid


def described(problem: Problem, plan: Plan, pair: tuple[int, int]) -> str:
    spans = [
        f"{problem.describe(t)} at [{plan.offsets[t]}, {plan.offsets[t] + problem.size[t]})"
        for t in pair
    ]
    return f"unsafe tensors share bytes: {spans[0]} and {spans[1]}"


pytestmark = pytest.mark.core


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
def test_touching_tensors_and_those_without_bytes_are_not_a_violation(referee: Referee) -> None:
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


@pytest.mark.parametrize("safety", Safety)
@in_parts("seeds", range(500), first=100)
def test_both_referees_agree_on_thousands_of_plans(safety: Safety, seeds: range) -> None:
    verdicts = []
    for seed in seeds:
        rng = Random(seed)
        problem = random_problem(rng, safety, (0, 14), features=SOLVABLE)
        plan = place(problem, "size", rng.choice(["first", "best"]))
        plans = [plan] + [corrupt(rng, problem, plan) for _ in range(3)]
        verdicts += [assert_judged(problem, plan) for plan in plans]
    assert len(verdicts) == 4 * len(seeds)
    assert 0.35 < sum(verdicts) / len(verdicts) < 0.65, "both verdicts are drawn often"


@pytest.mark.long
def test_both_referees_agree_on_many_plans(fresh_seed: int) -> None:
    rng = Random(fresh_seed)
    for _ in range(30_000):
        safety, most = rng.choice(list(Safety)), rng.choice([4, 10, 20])
        problem = random_problem(rng, safety, (0, most), features=SOLVABLE)
        assert_judged(problem, corrupt(rng, problem, place(problem)))


@pytest.mark.parametrize("referee", REFEREES)
def test_one_wrong_tensor_among_many_is_found(referee: Referee) -> None:
    rng = np.random.default_rng(5)
    tensors = 3000
    start = rng.integers(0, 5000, tensors)
    problem = Problem(
        rng.integers(1, 1 << 20, tensors), start, start + rng.integers(1, 99, tensors)
    )
    plan = place(problem)
    assert referee(problem, plan) is None
    segments = problem.segments()
    moved = int(np.argmax(plan.offsets))
    beside = np.flatnonzero(
        (segments[:, 1] < segments[moved, 2]) & (segments[moved, 1] < segments[:, 2])
    )
    other = int(next(t for t in beside if t != moved))
    offsets = plan.offsets.copy()
    offsets[moved] = offsets[other] + problem.size[other] - 1
    violation = referee(problem, Plan.of(problem, offsets))
    assert violation is not None
    assert f"tensor {moved} at [{offsets[moved]}, " in violation


@pytest.mark.parametrize("referee", REFEREES)
def test_a_large_graph_is_judged(referee: Referee) -> None:
    rng = Random(3)
    graph = random_graph(rng, 300, max_nodes=80, max_streams=5)
    problem = Problem([rng.randint(1, 99) for _ in range(graph.tensor_count)], graph=graph)
    plan = place(problem)
    assert referee(problem, plan) is None
    unsafe = definitions.unsafe(problem)
    for a, b in sorted(unsafe)[:: max(1, len(unsafe) // 20)]:
        offsets = plan.offsets.copy()
        offsets[a] = offsets[b]
        assert referee(problem, Plan.of(problem, offsets)) is not None


@pytest.mark.parametrize("seed", range(40))
def test_graphs_much_longer_than_wide_are_judged_alike(seed: int) -> None:
    # Of these the twin keeps a node a stream instead of a bit a node.
    rng = Random(seed)
    nodes, streams = rng.randint(100, 160), rng.choice([2, 3])
    producer = [rng.randrange(nodes) for _ in range(120)]
    graph = Graph(
        op=["op"] * nodes,
        stream=[rng.randrange(streams) for _ in range(nodes)],
        producer=producer,
        consumers=[
            [rng.randint(node, min(nodes - 1, node + 30)) for _ in range(rng.randrange(3))]
            for node in producer
        ],
    )
    problem = Problem([rng.randint(0, 9) for _ in range(120)], graph=graph)
    plan = place(problem)
    verdicts = [assert_judged(problem, plan)]
    verdicts += [assert_judged(problem, corrupt(rng, problem, plan)) for _ in range(5)]
    assert verdicts[0]


def test_it_keeps_no_problem_alive() -> None:
    two_streams = Graph(op=["a", "b"], stream=[0, 1], producer=[0, 1], consumers=[[], []])
    problem = Problem([4, 4], graph=two_streams)
    assert find_violation_fast(problem, Plan([0, 0], 4)) is not None
    alive = weakref.ref(problem)
    del problem
    assert alive() is None
