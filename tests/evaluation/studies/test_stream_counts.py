"""What the planner that counts says of a graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from instances.synthetic import training_graph
from planners import Graph, Problem, Status, run
from tests.definitions import unsafe_by_paths


@pytest.fixture(autouse=True)
def counter(bring: Callable[[str], None]) -> None:
    bring("stream_counts")


def test_unsafe_pairs_and_streams_are_counted() -> None:
    problem = training_graph(60, streams=4, chains=4, chain_length=3, seed=1)
    assert problem.graph is not None
    statistics = run(problem, "stream-counts").statistics
    assert statistics["unsafe_pairs"] == len(unsafe_by_paths(problem.graph))
    assert statistics["streams"] == 4


def test_a_stream_that_waits_for_nothing_is_open() -> None:
    graph = Graph(op=["mul"] * 3, stream=[0, 1, 2], producer=[0, 1, 2], consumers=[[], [2], []])
    statistics = run(Problem([1, 1, 1], graph=graph), "stream-counts").statistics
    # The third waits for the second, and the second for none.
    assert (statistics["open_streams"], statistics["following_streams"]) == (1, 2)


def test_lifetimes_alone_have_no_streams() -> None:
    assert run(Problem([1], [0], [1]), "stream-counts").status is Status.UNSUPPORTED
