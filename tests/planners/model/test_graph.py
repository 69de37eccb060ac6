"""The computation graph: its rules, its lifetimes, and the cycles it names."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import Graph, InstanceError
from planners.model.graph import MAX_STREAMS, find_cycle
from planners.testing.random_problems import random_graph
from tests import definitions

GOOD: dict[str, Any] = {
    "op": ["a", "b", "c"],
    "stream": [0, 5, 0],
    "producer": [0, 1],
    "consumers": [[1, 2], []],
    "control": [(0, 2)],
}


def message_of(**fields: Any) -> str:
    with pytest.raises(InstanceError) as caught:
        Graph(**{**GOOD, **fields})
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_columns_of_a_graph() -> None:
    graph = Graph(**GOOD)
    assert (graph.node_count, graph.tensor_count, graph.stream_count) == (3, 2, 2)
    assert graph.op == ("a", "b", "c")
    assert graph.stream.tolist() == [0, 5, 0]
    assert graph.producer.tolist() == [0, 1]
    assert graph.consumer_offsets.tolist() == [0, 2, 2]
    assert graph.consumer_nodes.tolist() == [1, 2]
    assert graph.consumer_tensors.tolist() == [0, 0]
    assert [graph.consumers_of(t).tolist() for t in (0, 1)] == [[1, 2], []]
    assert graph.control.tolist() == [[0, 2]]
    assert [column.tolist() for column in graph.lifetimes()] == [[0, 1], [3, 2]]


def test_arrays_are_taken_as_lists_are() -> None:
    graph = Graph(
        op=np.array(["a", "b"]).tolist(),
        stream=np.array([1, 1], dtype=np.uint8),
        producer=np.array([0]),
        consumers=[np.array([1])],
        control=np.array([[0, 1]], dtype=np.int32),
    )
    assert graph.consumer_nodes.tolist() == [1]
    assert graph.control.tolist() == [[0, 1]]


NODES = "nodes are numbered 0 to 2, found"
WHOLE = "a whole number that fits int64 is needed, found"
STREAMS = "streams are numbered 0 to 1048575, found"
LISTS = "one list a tensor is needed, found"
IN_ORDER = "nodes must be listed in global topological order, found the arc"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"op": ["a"]}, "stream: one entry a node is needed, found 3 for 1 nodes of graph.op"),
        ({"op": ["a", "b", "\r"]}, "op, node 2: a string of printable characters is needed, found "
         "'\\r'"),
        ({"stream": [0, -1, 0]}, f"stream, node 1: {STREAMS} -1"),
        ({"stream": [0, 0, MAX_STREAMS]}, f"stream, node 2: {STREAMS} 1048576"),
        ({"producer": [0, 3]}, f"producer, tensor 1: {NODES} 3"),
        ({"producer": [-1, 1]}, f"producer, tensor 0: {NODES} -1"),
        ({"producer": [0]}, f"consumers: {LISTS} 2 for 1 producers"),
        ({"consumers": [[1]]}, f"consumers: {LISTS} 1 for 2 producers"),
        ({"consumers": [[1], [3]]}, f"consumers, tensor 1: {NODES} 3"),
        ({"consumers": [[1, -1], []]}, f"consumers, tensor 0: {NODES} -1"),
        ({"consumers": [[1], 2]}, "consumers, tensor 1: a list is needed, found 2"),
        ({"consumers": [[1, 2], [1 << 70]]}, f"consumers, tensor 1: {WHOLE} {1 << 70}"),
        ({"control": [(0, 3)]}, f"control, arc 0: {NODES} 0 -> 3"),
        ({"control": [(0, 1), (-1, 1)]}, f"control, arc 1: {NODES} -1 -> 1"),
        ({"control": [(0, 1, 2)]}, "control, entry 0: 2 whole numbers are needed, found 3"),
        ({"control": [(0, 1), (1, 1)]}, "control, arc 1: the two nodes must differ, found 1 -> 1"),
        ({"control": [(2, 1)]}, f"control, arc 0: {IN_ORDER} 2 -> 1; list node 2 before 1"),
        ({"consumers": [[], [0]]}, f"consumers, tensor 1: {IN_ORDER} 1 -> 0; list node 1 before "
         "0"),
        ({"control": [(1, 2), (2, 0)]}, "control, arc 1: the arcs must not form a cycle, found "
         "1 -> 2 -> 0 -> 1"),
        ({"consumers": [[1], [0]], "control": []}, "consumers, tensor 1: the arcs must not form a "
         "cycle, found 1 -> 0 -> 1"),
    ],
)  # fmt: skip
def test_every_rule_is_one_line_that_names_field_and_tensor(
    fields: dict[str, Any], message: str
) -> None:
    assert message_of(**fields) == f"field graph.{message}"


def test_refuses_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planners.model.graph.MAX_NODES", 2)
    assert message_of() == "field graph.op: at most 2 nodes, found 3"


def test_a_workspace_is_not_a_cycle() -> None:
    graph = Graph(op=["a"], stream=[0], producer=[0], consumers=[[0]])
    assert [column.tolist() for column in graph.lifetimes()] == [[0], [1]]


@given(st.randoms(use_true_random=False))
def test_lifetimes_end_with_the_last_user(rng: Random) -> None:
    graph = random_graph(rng)
    start, end = graph.lifetimes()
    for tensor in range(graph.tensor_count):
        assert start[tensor] == graph.producer[tensor]
        assert end[tensor] == max(definitions.users(graph, tensor)) + 1
    assert graph.stream_count == len(set(graph.stream.tolist()))


@given(st.randoms(use_true_random=False))
def test_a_cycle_is_found_where_there_is_one(rng: Random) -> None:
    nodes = rng.randint(1, 7)
    arcs = [(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(rng.randint(0, 12))]
    sources, targets = np.array(arcs, dtype=np.int64).reshape(-1, 2).T
    cycle = find_cycle(nodes, sources, targets)
    reach = {(u, v) for u, v in arcs if u != v}
    for middle in range(nodes):
        reach |= {(u, v) for u, m in reach for n, v in reach if m == n == middle}
    assert bool(cycle) == any((node, node) in reach for node in range(nodes))
    if cycle:
        assert len(set(cycle)) == len(cycle) >= 2
        assert set(zip(cycle, [*cycle[1:], cycle[0]], strict=True)) <= set(arcs)
