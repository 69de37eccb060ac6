"""The fast twin against the slow referee: on thousands of plans, and on large problems."""

from __future__ import annotations

import weakref
from random import Random

import numpy as np
import pytest

from planners import Graph, Plan, Problem, Safety, place
from planners.referee.fast import find_violation_fast
from tests import definitions
from tests.planners.referee.painter import REFEREES, Referee, assert_judged, corrupt
from tests.random_problems import SOLVABLE, random_graph, random_problem
from tests.slow import in_parts

pytestmark = pytest.mark.core


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
def test_both_referees_agree_on_many_plans() -> None:
    seed = Random().randrange(1 << 32)
    print(f"seed {seed}")
    rng = Random(seed)
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
