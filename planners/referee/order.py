"""The referee of orders: slow, obvious, and without any code of the search for orders."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planners.errors import InvalidOrderError
from planners.model.columns import IntColumn
from planners.model.problem import Problem

# Fields that an order does not change: columns by tensor, and the rest.
UNCHANGED = (
    "size", "alignment", "pinned", "gaps", "phase_start", "phase_end", "dynamic", "layer_start",
    "layer_end", "contiguous", "capacity", "tensor_name", "name", "origin",
)  # fmt: skip


def check_order(given: Problem, problem: Problem, order: IntColumn) -> None:
    """Raise unless a problem is another one with the nodes of its graph in another order.

    ``order`` has, for each place, the number that the node there had before.
    """
    violation = find_changed_field(given, problem) or find_wrong_node(given, problem, order)
    if violation is not None:
        raise InvalidOrderError(violation)


def find_changed_field(given: Problem, problem: Problem) -> str | None:
    """Return the fault of a changed field that an order may not change, or None."""
    for field in UNCHANGED:
        before, after = _plain(getattr(given, field)), _plain(getattr(problem, field))
        if before != after:
            return f"field {field}: an order changes nothing of it, found it changed"
    return None


def find_wrong_node(given: Problem, problem: Problem, order: IntColumn) -> str | None:
    """Return the fault of the order, or of the graph in that order, or None."""
    old, new = given.graph, problem.graph
    if old is None or new is None:
        return "field graph: both problems need one"
    named = order.tolist()
    if sorted(named) != list(range(old.node_count)):
        return f"the order names each of the {old.node_count} nodes once, found another list"
    place = {node: index for index, node in enumerate(named)}
    if new.node_count != old.node_count:
        return f"field graph.op: {old.node_count} nodes are needed, found {new.node_count}"
    for index, node in enumerate(named):
        if (new.op[index], new.stream[index]) != (old.op[node], old.stream[node]):
            return (
                f"place {index}: node {node} is {old.op[node]} on stream {old.stream[node]}, "
                f"found {new.op[index]} on stream {new.stream[index]}"
            )
    for tensor in range(given.tensor_count):
        producer = place[int(old.producer[tensor])]
        if new.producer[tensor] != producer:
            return (
                f"{given.describe(tensor)}: its producer moves to place {producer}, "
                f"found {new.producer[tensor]}"
            )
        readers = sorted(place[int(node)] for node in old.consumers_of(tensor))
        found = sorted(int(node) for node in new.consumers_of(tensor))
        if found != readers:
            return f"{given.describe(tensor)}: its readers move to {readers}, found {found}"
        for reader in readers:
            if reader < producer:
                return (
                    f"{given.describe(tensor)}: its producer runs before its readers, found "
                    f"it at place {producer} and a reader at {reader}"
                )
    arcs = sorted((place[int(u)], place[int(v)]) for u, v in old.control)
    if sorted((int(u), int(v)) for u, v in new.control) != arcs:
        return "field graph.control: every arc stays, found others"
    for u, v in arcs:
        if v <= u:
            return f"control arc {named[u]} -> {named[v]}: it leads forwards, found it backwards"
    return None


def _plain(value: object) -> object:
    """Return a column as a list, and a mapping as a dictionary, for comparison."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return dict(value) if isinstance(value, Mapping) else value
