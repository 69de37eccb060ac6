"""Ends by stream, which large graphs are planned by, against rows of bits and the definition."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from planners import Graph, Problem, Safety, _core, check
from planners.greedy.place import place, place_in_objects
from planners.model.blocks import NOT_PINNED
from planners.safety.algorithms import core_graph, unsafe_rows
from planners.testing.random_problems import SOLVABLE, random_problem

pytestmark = pytest.mark.core


@pytest.fixture
def rows_are_never_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planners.model.core_instance._rows_are_small", lambda _: False)


def by_order(graph: Graph) -> _core.Instance:
    one = np.ones(graph.tensor_count, dtype=np.int64)
    each = np.arange(graph.tensor_count + 1)
    blocks = _core.Blocks(each, each[:-1].astype(np.int32), 0 * one, one, one, 0 * one, -one)
    return _core.Instance.from_graph(one, blocks, core_graph(graph))


def wide_graph(rng: Random, nodes: int, streams: int, tensors: int) -> Graph:
    """Return a graph whose arcs lead a short way, most within a stream; one stream has none."""
    stream = [rng.randrange(streams) for _ in range(nodes)]
    producer = sorted(rng.randrange(nodes) for _ in range(tensors))
    rng.shuffle(producer)
    consumers = []
    for node in producer:
        near = range(node + 1, min(nodes, node + rng.choice([4, 4, 40, nodes])))
        alike = [n for n in near if stream[n] == stream[node]]
        others = [n for n in near if 0 not in (stream[n], stream[node])]
        readers = rng.sample(alike, min(len(alike), rng.randint(0, 2)))
        if rng.random() < 0.3:
            readers += rng.sample(others, min(len(others), rng.randint(1, 3)))
        consumers.append(readers)
    control = [(u, v) for u, v in zip(range(nodes), range(5, nodes), strict=False)
               if rng.random() < 0.05 and 0 not in (stream[u], stream[v])]  # fmt: skip
    return Graph(
        op=["op"] * nodes, stream=stream, producer=producer, consumers=consumers, control=control
    )


@pytest.mark.parametrize("seed", range(30))
def test_every_question_has_the_answer_of_rows(seed: int) -> None:
    rng = Random(seed)
    nodes, tensors = rng.choice([(40, 300), (300, 130), (500, 500)])
    graph = wide_graph(rng, nodes, rng.choice([1, 2, 5, 17]), tensors)
    instance, unsafe = by_order(graph), unsafe_rows(graph).matrix()
    assert (instance.unsafe_degrees() == unsafe.sum(axis=1)).all()
    for tensor in rng.sample(range(tensors), 20):
        assert (instance.unsafe_with(tensor) == np.flatnonzero(unsafe[tensor])).all()
        other = rng.randrange(tensors)
        assert instance.unsafe(tensor, other) == unsafe[tensor, other]
    assert (instance.unsafe_pairs() == np.argwhere(np.triu(unsafe))).all()
    assert (instance.with_rows().unsafe_degrees() == unsafe.sum(axis=1)).all()


@pytest.mark.parametrize("seed", range(120))
def test_greedy_planners_place_as_they_do_by_rows(
    seed: int, request: pytest.FixtureRequest
) -> None:
    rng = Random(seed)
    problem = random_problem(rng, Safety.GRAPH, (1, 40), features=SOLVABLE)
    if rng.random() < 0.5:
        graph = wide_graph(rng, 200, 4, 400)
        problem = Problem([rng.choice([0, 1, 7, 512]) for _ in range(400)], graph=graph,
                          contiguous=[rng.sample(range(400), 5)])  # fmt: skip
    ways = [place] if (problem.pinned != NOT_PINNED).any() else [place, place_in_objects]
    asked = [(way, order, fit) for way in ways for order in ("size", "unsafe", "source")
             for fit in ("first", "best")]  # fmt: skip
    by_rows = [way(problem, order, fit).offsets for way, order, fit in asked]
    request.getfixturevalue("rows_are_never_small")
    same = problem.select(range(problem.tensor_count))
    for (way, order, fit), expected in zip(asked, by_rows, strict=True):
        plan = way(same, order, fit)
        assert (plan.offsets == expected).all(), (way.__name__, order, fit)
        check(same, plan)


def first_fit(problem: Problem, order: list[int]) -> list[int]:
    """Place tensors one after the other at the lowest offset, straight from the relation."""
    unsafe = unsafe_rows(problem.graph).matrix() if problem.graph else np.empty((0, 0))
    offsets = np.full(problem.tensor_count, -1)
    for tensor in order:
        others = np.flatnonzero(unsafe[tensor] & (offsets >= 0) & (problem.size > 0))
        lowest = 0
        for other in others[np.argsort(offsets[others])].tolist():
            if problem.size[tensor] == 0 or offsets[other] >= lowest + problem.size[tensor]:
                break
            lowest = max(lowest, int(offsets[other] + problem.size[other]))
        offsets[tensor] = lowest
    return offsets.tolist()


@pytest.mark.parametrize("streams", [2, 9])
def test_first_fit_is_what_it_says_where_few_and_where_most_pairs_are_unsafe(streams: int) -> None:
    rng = Random(streams)
    nodes = 1000
    stream = [node % streams for node in range(nodes)]
    for reach, share in ((9, 0.05), (nodes, 0.3)):
        consumers = [[min(nodes - 1, node + rng.randint(1, reach))] for node in range(nodes)]
        graph = Graph(op=["op"] * nodes, stream=stream, producer=range(nodes), consumers=consumers)
        problem = Problem([rng.randrange(100) for _ in range(nodes)], graph=graph)
        assert (problem.core.unsafe_degrees().mean() / nodes < share) == (reach == 9)
        order = rng.sample(range(nodes), nodes)
        keys = np.argsort(order)
        assert place(problem, keys).offsets.tolist() == first_fit(problem, order)


def test_large_graphs_take_no_table_of_pairs() -> None:
    tensors = 200_000
    node = np.arange(tensors)
    readers = np.minimum(node + 2, tensors - 1).tolist()
    graph = Graph(
        op=["op"] * tensors, stream=node % 2, producer=node, consumers=[[r] for r in readers]
    )
    problem = Problem(1 + node % 7, graph=graph)
    # Rows would take 5 GB.
    assert problem.core.unsafe_degrees().max() < tensors
    assert problem.core.unsafe(0, 1)
