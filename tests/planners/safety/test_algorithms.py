"""The four safety algorithms against the definition, and the definition against executions."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from planners import GaplessError, Graph, InstanceError, Problem
from planners.safety.algorithms import ALGORITHMS, DEFAULT_ALGORITHM, core_graph, unsafe_rows
from planners.testing.random_problems import random_graph
from tests import definitions

pytestmark = pytest.mark.core


def pairs_of(graph: Graph, algorithm: str) -> definitions.Pairs:
    matrix = unsafe_rows(graph, algorithm).matrix()
    assert matrix.shape == (graph.tensor_count, graph.tensor_count)
    assert (matrix == matrix.T).all()
    assert not matrix.diagonal().any()
    return {(int(a), int(b)) for a, b in np.argwhere(matrix) if a < b}


def assert_relation(graph: Graph, expected: definitions.Pairs) -> None:
    for algorithm in ALGORITHMS:
        assert pairs_of(graph, algorithm) == expected, algorithm
        assert unsafe_rows(graph, algorithm).equals(unsafe_rows(graph, DEFAULT_ALGORITHM))


def stream_arcs(graph: Graph) -> set[tuple[int, int]]:
    """Return the arcs of the stream graph."""
    stream = graph.stream.tolist()
    arcs = {(stream[u], stream[v]) for u, after in enumerate(definitions.successors(graph))
            for v in after}  # fmt: skip
    return {(s, t) for s, t in arcs if s != t}


def has_stream_cycle(graph: Graph) -> bool:
    arcs = stream_arcs(graph)
    left = {stream for arc in arcs for stream in arc}
    while left:
        sources = {s for s in left if not any((t, s) in arcs for t in left)}
        if not sources:
            return True
        left -= sources
    return False


def is_between(graph: Graph, tensor: int) -> bool:
    home = graph.stream[graph.producer[tensor]]
    return any(graph.stream[user] != home for user in definitions.users(graph, tensor))


def has_safe_pair_between_streams(graph: Graph) -> bool:
    """Return whether the paper's side note happens.

    Two tensors of one stream, both read in others, and one is dead before the other is born.
    """
    unsafe = definitions.unsafe_by_paths(graph)
    stream = graph.stream[graph.producer]
    return any(
        stream[a] == stream[b] and is_between(graph, a) and is_between(graph, b)
        for a, b in combinations(range(graph.tensor_count), 2)
        if (a, b) not in unsafe
    )


@given(st.randoms(use_true_random=False))
def test_all_algorithms_return_the_defined_relation(rng: Random) -> None:
    graph = random_graph(rng, max_nodes=12)
    event(f"stream graph with a cycle: {has_stream_cycle(graph)}")
    assert_relation(graph, definitions.unsafe_by_paths(graph))


@pytest.mark.parametrize("seed", range(8))
def test_all_algorithms_agree_on_graphs_wider_than_a_word(seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng, (0, 200), max_nodes=70, max_streams=8)
    assert_relation(graph, definitions.unsafe_by_paths(graph))


@pytest.mark.parametrize("tensors", [63, 64, 65, 127, 128, 129])
def test_algorithms_agree_where_a_row_ends_at_a_word(tensors: int) -> None:
    rng = Random(tensors)
    producer = [rng.randrange(20) for _ in range(tensors)]
    graph = Graph(
        op=["op"] * 21,
        stream=[rng.randrange(3) for _ in range(21)],
        producer=producer,
        consumers=[[rng.randint(p, 20)] for p in producer],
    )
    assert_relation(graph, definitions.unsafe_by_paths(graph))


def test_the_definition_is_what_executions_need_at_once() -> None:
    for seed in range(400):
        graph = random_graph(Random(seed), (0, 6), max_nodes=6, max_streams=3)
        by_paths = definitions.unsafe_by_paths(graph)
        assert definitions.unsafe_by_executions(graph) == by_paths, f"seed {seed}"


def test_random_graphs_hold_every_case() -> None:
    """Holds what the tests above rest on: the cases that tell the algorithms apart are drawn."""
    graphs = [random_graph(Random(seed), max_nodes=12) for seed in range(300)]
    assert sum(map(has_stream_cycle, graphs)) > 30
    assert sum(map(has_safe_pair_between_streams, graphs)) > 5
    assert sum(len(set(g.producer.tolist())) < g.tensor_count for g in graphs) > 30
    assert sum(len(g.control) > 0 for g in graphs) > 30
    tensors = [(g, t) for g in graphs for t in range(g.tensor_count)]
    assert sum(len(g.consumers_of(t)) == 0 for g, t in tensors) > 30
    assert sum(g.producer[t] in g.consumers_of(t) for g, t in tensors) > 30
    dead = [g for g in graphs if set(g.stream.tolist()) - set(g.stream[g.producer].tolist())]
    assert len(dead) > 30


@pytest.mark.parametrize("nodes", [0, 3])
def test_a_graph_without_tensors_has_no_pairs(nodes: int) -> None:
    graph = Graph(op=["op"] * nodes, stream=[0] * nodes, producer=[], consumers=[])
    assert_relation(graph, set())


@given(st.randoms(use_true_random=False))
def test_one_stream_is_the_relation_of_its_lifetimes(rng: Random) -> None:
    graph = random_graph(rng, max_streams=1)
    start, end = graph.lifetimes()
    in_time = Problem([1] * graph.tensor_count, start, end)
    assert_relation(graph, definitions.unsafe(in_time))


def test_an_unknown_algorithm_is_refused_by_name() -> None:
    graph = Graph(op=["op"], stream=[0], producer=[], consumers=[])
    with pytest.raises(GaplessError, match=r"no safety algorithm is called 'clock'.*'clocks'"):
        unsafe_rows(graph, "clock")


def test_a_graph_whose_clocks_would_not_fit_is_refused_before_memory_is_taken() -> None:
    nodes = 40_000
    graph = Graph(
        op=["op"] * nodes, stream=range(nodes), producer=[0, nodes - 1], consumers=[[], []]
    )
    for use in (unsafe_rows, core_graph):
        with pytest.raises(InstanceError, match="40000 nodes on 40000 streams"):
            use(graph)


@pytest.mark.long
def test_all_algorithms_agree_on_many_graphs(fresh_seed: int) -> None:
    rng = Random(fresh_seed)
    for _ in range(20_000):
        graph = random_graph(rng, max_nodes=rng.choice([4, 10, 40]), max_streams=rng.choice([2, 6]))
        assert_relation(graph, definitions.unsafe_by_paths(graph))
