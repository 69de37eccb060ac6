"""The work of every node as chunks of bytes, as the kernel draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.layout import Layout
from gpu_runtime.node_program import NodeProgram
from planners.columns import IntColumn

# About two microseconds of one block's work: many blocks share a tensor of some MiB.
CHUNK_BYTES = 64 << 10

CHUNK = np.dtype([("begin", np.uint64), ("bytes", np.uint32), ("tensor", np.uint32)])
NODE = np.dtype(
    [
        ("first_chunk", np.uint32),
        ("stamp_chunks", np.uint32),
        ("chunks", np.uint32),
        ("unused", np.uint32),
    ]
)

Table = NDArray[np.void]


@dataclass(frozen=True, eq=False)
class WorkTable:
    """Chunks of all nodes.

    Parameters
    ----------
    chunks
        ``CHUNK``, those of a node side by side, its stamps first. None crosses a multiple of
        ``CHUNK_BYTES`` in the arena, so that no word is in two chunks of a tensor.
    nodes
        ``NODE``, one a node.
    """

    chunks: Table
    nodes: Table


def make_work_table(program: NodeProgram, layout: Layout) -> WorkTable:
    """Return the chunks of a program's nodes.

    Parameters
    ----------
    program
        What is run.
    layout
        Where its tensors lie.

    Returns
    -------
    WorkTable
        Ready to be copied to a device.
    """
    # Two groups a node, stamps and checks, in the order in which chunks are drawn.
    groups: Sequence[tuple[int, ...]] = list(
        chain.from_iterable(zip(program.stamps, program.checks, strict=True))
    )
    tensors = np.fromiter(chain.from_iterable(groups), dtype=np.int64)
    group = np.repeat(np.arange(len(groups)), [len(its) for its in groups])
    begin, end = layout.offset[tensors], (layout.offset + layout.size)[tensors]
    first = begin // CHUNK_BYTES
    count = -(-end // CHUNK_BYTES) - first
    chunks = _cut(tensors, begin, end, first, count)
    per_group = np.bincount(group, weights=count, minlength=len(groups)).astype(np.int64)
    of_node = per_group.reshape(-1, 2)
    nodes = np.zeros(program.node_count, dtype=NODE)
    nodes["stamp_chunks"] = of_node[:, 0]
    nodes["chunks"] = of_node.sum(1)
    nodes["first_chunk"] = np.cumsum(of_node.sum(1)) - of_node.sum(1)
    return WorkTable(chunks, nodes)


def _cut(
    tensors: IntColumn, begin: IntColumn, end: IntColumn, first: IntColumn, count: IntColumn
) -> NDArray[Any]:
    """Return the chunks of spans of bytes, span by span."""
    span = np.repeat(np.arange(len(tensors)), count)
    within = np.arange(len(span)) - np.repeat(np.cumsum(count) - count, count)
    window = (first[span] + within) * CHUNK_BYTES
    low = np.maximum(window, begin[span])
    chunks = np.zeros(len(span), dtype=CHUNK)
    chunks["begin"] = low
    chunks["bytes"] = np.minimum(window + CHUNK_BYTES, end[span]) - low
    chunks["tensor"] = tensors[span]
    return chunks
