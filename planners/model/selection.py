"""Derives the fields of a problem for a selection of its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from planners.errors import InstanceError
from planners.model.columns import IntColumn, frozen_column
from planners.model.graph import Graph
from planners.model.problem_fields import ProblemFields, Safety

COLUMNS = (
    "size", "alignment", "pinned", "phase_start", "phase_end", "dynamic", "layer_start",
    "layer_end",
)  # fmt: skip
# The fields that decide safety, with the fields that depend on them.
DECIDERS = {
    Safety.LIFETIMES: frozenset(("start", "end", "gaps")),
    Safety.GRAPH: frozenset(("graph",)),
    Safety.PAIRS: frozenset(("unsafe_pairs",)),
}
NOT_CHOSEN = -1


def selected_fields(
    problem: ProblemFields, tensors: Iterable[int] | IntColumn, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a selection; fields in ``changes`` are not derived."""
    chosen, place = _chosen(problem, tensors)
    fields = dict(changes)
    for field in COLUMNS:
        column = getattr(problem, field)
        if field not in changes and column is not None:
            fields[field] = column[chosen]
    if "tensor_name" not in changes and problem.tensor_name is not None:
        fields["tensor_name"] = [problem.tensor_name[tensor] for tensor in chosen.tolist()]
    if "contiguous" not in changes:
        fields["contiguous"] = _whole_chains(problem, place)
    if "reuse_prices" not in changes and len(problem.reuse_prices):
        prices = np.column_stack((place[problem.reuse_prices[:, :2]], problem.reuse_prices[:, 2]))
        fields["reuse_prices"] = prices[(prices[:, :2] != NOT_CHOSEN).all(axis=1)]
    if "together" not in changes:
        groups = [[place[t] for t in group if place[t] >= 0] for group in problem.together]
        fields["together"] = [group for group in groups if len(group) > 1]
    for field in ("apart", "exclusive"):
        pairs = place[getattr(problem, field)]
        fields.setdefault(field, pairs[(pairs != NOT_CHOSEN).all(axis=1)])
    places = np.column_stack((place[problem.places[:, 0]], problem.places[:, 1:]))
    fields.setdefault("places", places[places[:, 0] != NOT_CHOSEN])
    for field in ("memories", "capacity", "name", "origin"):
        fields.setdefault(field, getattr(problem, field))
    own = DECIDERS[problem.safety]
    others = frozenset().union(*DECIDERS.values()) - own
    if others.isdisjoint(changes) and not own <= changes.keys():
        fields = {**_safety_fields(problem, chosen, place), **fields}
    return fields


def _chosen(
    problem: ProblemFields, tensors: Iterable[int] | IntColumn
) -> tuple[IntColumn, IntColumn]:
    """Return the chosen tensors, and the place of every tensor among them or NOT_CHOSEN."""
    chosen = frozen_column("tensors", tensors, entry="entry")
    for entry in np.flatnonzero((chosen < 0) | (chosen >= problem.tensor_count))[:1].tolist():
        raise InstanceError(
            f"selection, entry {entry}: tensors are numbered 0 to {problem.tensor_count - 1}, "
            f"found {chosen[entry]}"
        )
    place = np.full(problem.tensor_count, NOT_CHOSEN, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    for entry in np.flatnonzero(place[chosen] != np.arange(len(chosen)))[:1].tolist():
        raise InstanceError(
            f"selection, entry {entry}: every tensor comes once, found "
            f"{problem.describe(chosen[entry])} again"
        )
    return chosen, place


def _whole_chains(problem: ProblemFields, place: IntColumn) -> list[IntColumn]:
    chains = []
    for index, chain in enumerate(problem.contiguous):
        places = place[list(chain)]
        left_out = np.flatnonzero(places == NOT_CHOSEN)
        if len(left_out) == len(chain):
            continue
        for member in left_out[:1].tolist():
            raise InstanceError(
                f"selection: all members of a chain or none are needed, or contiguous, found "
                f"chain {index} without {problem.describe(chain[member])}"
            )
        chains.append(places)
    return chains


def _safety_fields(problem: ProblemFields, chosen: IntColumn, place: IntColumn) -> dict[str, Any]:
    if problem.graph is not None:
        return {"graph": _selected_graph(problem.graph, chosen, place)}
    if problem.unsafe_pairs is not None:
        pairs = place[problem.unsafe_pairs]
        return {"unsafe_pairs": pairs[(pairs != NOT_CHOSEN).all(axis=1)]}
    tensor, begin, end = problem.gaps.T
    gaps = np.column_stack((place[tensor], begin, end))
    return {
        "start": problem.start[chosen],
        "end": problem.end[chosen],
        "gaps": gaps[gaps[:, 0] != NOT_CHOSEN],
    }


def _selected_graph(graph: Graph, chosen: IntColumn, place: IntColumn) -> Graph:
    """Return the graph with some of its tensors.

    Note: why no pair changes. Whether a tensor is dead before another is born depends on paths
    between nodes, and an arc orders its ends whether or not a tensor goes along it. So the arcs of
    the tensors that are left out stay as control arcs. A workspace, whose node reads what it
    writes, has no arc.
    """
    readers = np.flatnonzero(place[graph.consumer_tensors] == NOT_CHOSEN)
    arcs = np.column_stack(
        (graph.producer[graph.consumer_tensors[readers]], graph.consumer_nodes[readers])
    )
    arcs = np.unique(arcs[arcs[:, 0] < arcs[:, 1]], axis=0)
    return Graph(
        op=graph.op,
        stream=graph.stream,
        producer=graph.producer[chosen],
        consumers=[graph.consumers_of(tensor) for tensor in chosen.tolist()],
        control=np.concatenate((graph.control, arcs)),
        work=graph.work and graph.work.select(np.arange(graph.node_count), place),
    )
