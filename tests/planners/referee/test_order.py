"""The referee of orders: it accepts what is right, and names what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from planners import Graph, Problem
from planners.errors import InvalidOrderError
from planners.referee.order import check_order, find_wrong_node
from planners.reorder.reordering import in_order

GRAPH = Graph(
    op=["a", "b", "read a", "read b"],
    stream=[0, 0, 0, 1],
    producer=[0, 1],
    consumers=[[2], [3]],
    control=[(1, 3)],
)
GIVEN = Problem([5, 3], graph=GRAPH, tensor_name=["x", "y"])
ORDER = np.array([1, 0, 3, 2])


def changed(**changes: object) -> Problem:
    return in_order(GIVEN, ORDER).select([0, 1], **changes)


def graph_with(**changes: object) -> Graph:
    fields = {
        "op": ["b", "a", "read b", "read a"],
        "stream": [0, 0, 1, 0],
        "producer": [1, 0],
        "consumers": [[3], [2]],
        "control": [(0, 2)],
    }
    return Graph(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_right_order_is_right() -> None:
    check_order(GIVEN, in_order(GIVEN, ORDER), ORDER)
    check_order(GIVEN, changed(graph=graph_with()), ORDER)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (changed(size=[5, 4]), "field size"),
        (changed(tensor_name=["x", "z"]), "field tensor_name"),
        (changed(capacity=9), "field capacity"),
        (changed(contiguous=[(0, 1)]), "field contiguous"),
        (changed(graph=graph_with(op=["b", "a", "read a", "read b"])), "place 2: node 3"),
        (changed(graph=graph_with(stream=[0, 0, 1, 1])), "place 3: node 2"),
        (changed(graph=graph_with(producer=[0, 0])), "its producer moves to place 1"),
        (changed(graph=graph_with(consumers=[[3], [2, 3]])), "its readers move to"),
        (changed(graph=graph_with(control=[])), "every arc stays"),
    ],
)
def test_a_change_that_no_order_may_make_is_named(problem: Problem, message: str) -> None:
    with pytest.raises(InvalidOrderError, match=message):
        check_order(GIVEN, problem, ORDER)


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 1, 2, 2], [0, 1, 2, 4]])
def test_an_order_names_each_node_once(order: list[int]) -> None:
    with pytest.raises(InvalidOrderError, match="names each of the 4 nodes once"):
        check_order(GIVEN, GIVEN, np.array(order))


def test_arcs_lead_forwards() -> None:
    # No problem can be made of such a graph, so the referee is shown one that was changed since.
    wrong = Graph(op=GRAPH.op, stream=[0, 0, 0, 1], producer=[0, 1], consumers=[[2], [3]])
    object.__setattr__(wrong, "producer", np.array([2, 1]))
    object.__setattr__(wrong, "consumer_nodes", np.array([0, 3]))
    object.__setattr__(wrong, "op", ("read a", "b", "a", "read b"))
    object.__setattr__(wrong, "control", np.array([[1, 3]]))
    backwards = Problem([5, 3], graph=GRAPH)
    object.__setattr__(backwards, "graph", wrong)
    said = find_wrong_node(GIVEN, backwards, np.array([2, 1, 0, 3]))
    assert said is not None
    assert "its producer runs before its readers" in said
