"""Blocks of a forward pass: the nodes between two narrow places, where few bytes go across."""

from __future__ import annotations

import numpy as np

from planners.model.columns import IntColumn
from planners.recompute.repeatable_step import RepeatableStep


def crossing_bytes(step: RepeatableStep) -> IntColumn:
    """Return the bytes that the forward pass itself carries across the end of each of its nodes.

    Only tensors that can be made again count, from the node that makes them to the last node of the
    forward pass that reads them.
    """
    graph, last = step.graph, step.last_early_use
    counts = step.is_repeatable[step.unit_of_tensor] & (last > graph.producer)
    change = np.zeros(graph.node_count + 1, dtype=np.int64)
    np.add.at(change, graph.producer[counts], step.problem.size[counts])
    np.add.at(change, last[counts], -step.problem.size[counts])
    return np.cumsum(change)[: step.first_late_node]


def narrow_places(step: RepeatableStep) -> IntColumn:
    """Return nodes of the forward pass, in order, behind each of which a block ends.

    They are the places where fewer bytes go across than at both neighbouring places that differ,
    and no more than at half of all such places.
    """
    bytes_across = crossing_bytes(step)
    if len(bytes_across) < 3:
        return np.empty(0, dtype=np.int64)
    # The last node of each run of equal bytes.
    ends = np.flatnonzero(np.diff(bytes_across) != 0)
    levels = bytes_across[ends]
    lowest = (
        np.flatnonzero((levels[1:-1] < levels[:-2]) & (levels[1:-1] < levels[2:])) + 1
        if len(levels) > 2
        else np.empty(0, dtype=np.int64)
    )
    lowest = lowest[levels[lowest] > 0]
    if not len(lowest):
        return np.empty(0, dtype=np.int64)
    return ends[lowest[levels[lowest] <= np.median(levels[lowest])]]


def units_of_blocks(step: RepeatableStep, ends: IntColumn) -> list[IntColumn]:
    """Return the repeatable units of each block; units that make what leaves their block stay.

    A block ends behind each node of `ends`, which ascend; the last one ends with the forward pass.
    """
    graph = step.graph
    block_of_node = np.searchsorted(ends, np.arange(graph.node_count), side="left")
    leaves = np.zeros(step.unit_count, dtype=bool)
    early = graph.consumer_nodes < step.first_late_node
    tensors, readers = graph.consumer_tensors[early], graph.consumer_nodes[early]
    across = block_of_node[graph.producer[tensors]] != block_of_node[readers]
    leaves[step.unit_of_tensor[tensors[across]]] = True
    units = np.flatnonzero(step.is_repeatable & ~leaves)
    first_nodes = np.array([step.nodes_of_unit[unit][0] for unit in units.tolist()], dtype=np.int64)
    # Units are numbered in the order of their first nodes.
    return np.split(units, np.searchsorted(block_of_node[first_nodes], np.arange(1, len(ends) + 1)))
