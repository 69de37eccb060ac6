"""The result of a search for an order, as a line for people and as fields for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from planners.model.bounds import Bound, antichain_bound, lifetime_bound
from planners.model.columns import IntColumn
from planners.model.graph import Graph
from planners.model.plan import Status
from planners.model.problem import Problem
from planners.model.problem_fields import MOST_SHOWN_NAME
from planners.text.byte_units import both_bytes, exact_bytes
from planners.text.plain_text import one_line


@dataclass(frozen=True, eq=False)
class Reordering:
    """A judged order of a graph's nodes, beside the given order.

    Parameters
    ----------
    given, problem
        The problem in the given order and in the new one; the tensors keep their numbers.
    order
        int64, one a node: the number that the node at each place had in the given order.
    bound, given_bound
        Lower bound of all plans in the new and in the given order: the lifetime bound for one
        stream, the heaviest antichain for several.
    least_bytes, certificate
        Lower bound of all orders in bytes, and the name of its proof.
    interrupted
        True if Ctrl-C ended the search.
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
        """The bound of the given order less the bound of the new one, at least 0."""
        return self.given_bound.bytes - self.bound.bytes

    @property
    def status(self) -> Status:
        """Optimal if it is proven that no order has a lower bound, else feasible."""
        is_proven = self.bound.bytes == self.least_bytes
        return Status.OPTIMAL if is_proven else Status.FEASIBLE


def bound_of_order(problem: Problem) -> Bound:
    """Return the bound by which an order is judged, of the problem in that order.

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
            work=graph.work and graph.work.select(order, np.arange(problem.tensor_count)),
        ),
    )


class ReorderingFields(TypedDict):
    """The fields of a reordering in JSON; docs/reordering.md explains each field."""

    bound: str
    given: int
    reordered: int
    saved: int
    status: str
    least: int
    certificate: str
    seconds: float
    seed: int
    interrupted: bool
    statistics: dict[str, int]


def reordering_record(found: Reordering) -> ReorderingFields:
    """Return the fields of a reordering, every number exact."""
    return {
        "bound": found.bound.name,
        "given": found.given_bound.bytes,
        "reordered": found.bound.bytes,
        "saved": found.saved_bytes,
        "status": found.status.value,
        "least": found.least_bytes,
        "certificate": found.certificate,
        "seconds": found.seconds,
        "seed": found.seed,
        "interrupted": found.interrupted,
        "statistics": dict(found.statistics),
    }


def reordering_text(found: Reordering) -> str:
    """Return the line that says what the order costs."""
    given = found.given_bound.bytes
    share = found.saved_bytes / given if given else 0.0
    proof = (
        f"optimal, proven by {found.certificate}"
        if found.status is Status.OPTIMAL
        else f"feasible; no order is below {exact_bytes(found.least_bytes)}, by {found.certificate}"
    )
    parts = [
        f"{found.bound.name} bound {both_bytes(given)} in the given order, "
        f"{both_bytes(found.bound.bytes)} in the new one",
        f"{both_bytes(found.saved_bytes)} saved ({share:.3%})",
        proof,
        f"{found.seconds:.3f} s",
    ]
    if found.interrupted:
        parts.append("interrupted")
    return f"{one_line(found.given.name, MOST_SHOWN_NAME)}: {'; '.join(parts)}"
