"""The frontier against every set of waits, its bounds, and the paths that decide both."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from planners import Budget, Graph, InstanceError, Problem, check
from planners.waits import waits_frontier
from planners.waits.candidate_waits import candidate_waits
from planners.waits.wait_proof import WaitProof
from planners.waits.wait_search import WaitSearch
from planners.waits.waiting_streams import WaitingStreams
from planners.waits.waits_frontier import WaitsFrontier
from tests.planners.waits.graphs import brute_force, random_problem

SEVERAL = [p for p in map(random_problem, range(60)) if p.stream_count > 1]


@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_small_frontiers_equal_brute_force(seed: int) -> None:
    problem = random_problem(seed, nodes=6)
    if problem.stream_count == 1:
        pytest.skip("one stream")
    points = list(WaitsFrontier(problem, Budget()).points(range(4)))
    assert [point.peak for point in points] == brute_force(problem, 3)
    assert [point.bound for point in points] == [point.peak for point in points]
    for point in points:
        assert len(point.waits) <= point.count
        assert point.result.plan is not None
        check(point.problem, point.result.plan)


@pytest.mark.parametrize("problem", SEVERAL[:30], ids=str)
def test_the_proof_knows_the_best_antichain(problem: Problem) -> None:
    streams = WaitingStreams(problem)
    candidates = candidate_waits(streams)
    proof, search = WaitProof(streams, candidates), WaitSearch(streams, Budget())
    for count in range(4):
        sets = map(frozenset, combinations(candidates, min(count, len(candidates))))
        least = min(streams.antichain(waits)[0] for waits in sets)
        found = streams.antichain(search.best(count))[0]
        assert found >= least
        known = proof.fitting(least, count, Budget(), lambda _waits, _bytes: True)
        assert known is not None
        assert streams.antichain(known)[0] <= least
        assert proof.fitting(least - 1, count, Budget(), lambda _waits, _bytes: True) is None


@pytest.mark.parametrize("problem", SEVERAL, ids=str)
def test_all_candidates_together_make_one_stream(problem: Problem) -> None:
    streams = WaitingStreams(problem)
    together = streams.with_waits(frozenset(candidate_waits(streams)))
    ordered = streams.in_one_stream
    for a, b in combinations(range(problem.tensor_count), 2):
        assert together.core.unsafe(a, b) == ordered.core.unsafe(a, b)


def test_a_frontier_of_many_tensors_is_monotone_and_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits_frontier, "MOST_TENSORS_EXACT", 0)
    for seed in range(3):
        problem = random_problem(seed, nodes=60, streams=5, arcs=12)
        points = list(WaitsFrontier(problem, Budget(0.2)).points((0, 2, 4, 8)))
        peaks, bounds = [p.peak for p in points], [p.bound for p in points]
        assert peaks == sorted(peaks, reverse=True)
        assert all(np.less_equal(bounds, peaks))
        assert peaks[-1] < peaks[0]
        for point in points:
            assert point.result.plan is not None
            check(point.problem, point.result.plan)


def test_a_wait_for_one_of_two_readers_is_enough_where_the_other_is_waited_for() -> None:
    graph = Graph(
        op=["op"] * 4, stream=[0, 0, 1, 2], producer=[0, 3], consumers=[[1, 2], []],
        control=[(1, 3)],
    )  # fmt: skip
    streams = WaitingStreams(Problem(size=[5, 4], graph=graph))
    proof = WaitProof(streams, candidate_waits(streams))
    found = proof.fitting(5, 1, Budget(), lambda _waits, _bytes: True)
    assert found == frozenset({(2, 3)})
    assert WaitSearch(streams, Budget()).best(1) == found
    assert proof.fitting(5, 0, Budget(), lambda _waits, _bytes: True) is None


def test_reach_is_the_transitive_closure() -> None:
    for problem in SEVERAL[:20]:
        streams = WaitingStreams(problem)
        waits = frozenset(candidate_waits(streams)[:2])
        graph = streams.with_waits(waits).graph
        assert graph is not None
        nodes = graph.node_count
        closed = np.eye(nodes, dtype=bool)
        closed[graph.producer[graph.consumer_tensors], graph.consumer_nodes] = True
        closed[graph.control[:, 0], graph.control[:, 1]] = True
        for u, v in combinations(range(nodes), 2):
            closed[u, v] |= graph.stream[u] == graph.stream[v]
        for middle in range(nodes):
            closed |= closed[:, [middle]] & closed[[middle], :]
        reach = streams.reach(waits)
        for u, v in product(range(nodes), repeat=2):
            assert reach.leads(u, v) == closed[u, v]


def test_one_stream_is_refused() -> None:
    with pytest.raises(InstanceError, match=r"several streams is needed, .* found graph and 1"):
        WaitingStreams(random_problem(1, streams=1))
    with pytest.raises(InstanceError, match="found lifetimes and 1 stream"):
        WaitingStreams(Problem(size=[1], start=[0], end=[1]))
