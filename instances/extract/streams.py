"""Streams by category, each with an upper limit of nodes."""

from __future__ import annotations

import enum
from collections.abc import Sequence


class Category(enum.Enum):
    """Kind of node; a stream holds nodes of one kind."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    OTHER = "other"


COMMUNICATION_OPS = frozenset({"all_reduce"})

# What makes or moves data without arithmetic. An operator that is named in neither set computes.
OTHER_OPS = frozenset(
    {
        "_to_copy", "arange", "cat", "clone", "constant_pad_nd", "copy_", "embedding", "fill_",
        "full", "full_like", "index", "input", "masked_fill", "masked_fill_", "new_ones",
        "new_zeros", "ones", "ones_like", "output", "scalar_tensor", "stack", "zeros",
        "zeros_like",
    }
)  # fmt: skip


def category_of(op: str) -> Category:
    """Return the category of an operator.

    Parameters
    ----------
    op
        Name without namespace and overload.

    Returns
    -------
    Category
        Compute for every operator that is not known to communicate or to make or move data.
    """
    if op in COMMUNICATION_OPS:
        return Category.COMMUNICATION
    return Category.OTHER if op in OTHER_OPS else Category.COMPUTE


def assign_streams(ops: Sequence[str], nodes_per_stream: int) -> list[int]:
    """Traverse the nodes in order and open a new stream when that of a category is full.

    Parameters
    ----------
    ops
        Operator of each node, in global topological order.
    nodes_per_stream
        Upper limit of nodes on a stream, at least 1.

    Returns
    -------
    list of int
        Stream of each node, numbered from 0 in the order of their first nodes.

    References
    ----------
    safe-optimized-static-memory-allocation, section 5.1.
    """
    streams: list[int] = []
    current: dict[Category, int] = {}
    nodes_on: list[int] = []
    for op in ops:
        category = category_of(op)
        if category not in current or nodes_on[current[category]] == nodes_per_stream:
            current[category] = len(nodes_on)
            nodes_on.append(0)
        nodes_on[current[category]] += 1
        streams.append(current[category])
    return streams
