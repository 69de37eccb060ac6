"""What a search for an order found: the order, the problem in it, and what both are worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from planners.model.bounds import Bound, antichain_bound, lifetime_bound
from planners.model.columns import IntColumn
from planners.model.graph import Graph
from planners.model.plan import Status
from planners.model.problem import Problem
from planners.text.byte_units import both_bytes


@dataclass(frozen=True, eq=False)
class Reordering:
    """An order of a graph's nodes, judged, beside the one that was given.

    Parameters
    ----------
    given, problem
        The problem in the given order and in the new one; the tensors keep their numbers.
    order
        int64, one a node: the number that the node at each place had in the given order.
    bound, given_bound
        What no plan stays below in either order: the lifetime bound of one stream, the heaviest
        antichain of several.
    least_bytes, certificate
        Bytes that no order stays below, and the name of what proves it.
    interrupted
        Whether Ctrl-C ended the search.
    seconds
        Wall time of the search.
    seed
        Start of every random choice.
    statistics
        Counters of the search.
    """

    given: Problem
    problem: Problem
    order: IntColumn
    bound: Bound
    given_bound: Bound
    least_bytes: int
    certificate: str
    interrupted: bool
    seconds: float
    seed: int
    statistics: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"<Reordering {self.status.value}: {self.bound.name} {both_bytes(self.bound.bytes)}, "
            f"{both_bytes(self.saved_bytes)} saved>"
        )

    @property
    def saved_bytes(self) -> int:
        """How far the bound of the new order is below that of the given one, at least 0."""
        return self.given_bound.bytes - self.bound.bytes

    @property
    def status(self) -> Status:
        """Optimal where no order has a lower bound, which is proven; feasible where not."""
        is_proven = self.bound.bytes == self.least_bytes
        return Status.OPTIMAL if is_proven else Status.FEASIBLE


def bound_of_order(problem: Problem) -> Bound:
    """Return what an order is judged by, of the problem in that order.

    With one stream the lifetime bound and the antichain are the same number.
    """
    return lifetime_bound(problem) if problem.stream_count <= 1 else antichain_bound(problem)


def in_order(problem: Problem, order: IntColumn) -> Problem:
    """Return the same problem with the nodes of its graph in another order."""
    graph = problem.graph
    assert graph is not None
    place = np.empty(graph.node_count, dtype=np.int64)
    place[order] = np.arange(graph.node_count)
    control = place[graph.control]
    return problem.select(
        np.arange(problem.tensor_count),
        graph=Graph(
            op=[graph.op[node] for node in order.tolist()],
            stream=graph.stream[order],
            producer=place[graph.producer],
            consumers=[place[graph.consumers_of(t)] for t in range(problem.tensor_count)],
            control=control[np.lexsort((control[:, 1], control[:, 0]))],
        ),
    )
