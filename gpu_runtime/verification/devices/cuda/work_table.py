"""The work of every node as chunks of bytes, which blocks of the kernel draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from planners.model.columns import IntColumn

# A chunk is some microseconds of work of one block. All blocks of a large GPU share a tensor of 16
# MiB; for larger tensors drawing chunks costs little time.
LEAST_CHUNK_BYTES = 64 << 10
MOST_CHUNK_BYTES = 256 << 10
CHUNKS_OF_A_LARGE_TENSOR = 1024

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
    # ``CHUNK``, those of a node side by side, its stamps first. Two chunks of a tensor meet at a
    # multiple of ``LEAST_CHUNK_BYTES`` in the arena, so that no word is in both.
    chunks: Table
    # ``NODE``, one a node.
    nodes: Table


def make_work_table(program: StampCheckProgram, layout: Layout) -> WorkTable:
    # Each node has two groups, stamps and checks, in the order in which chunks are drawn.
    groups: Sequence[tuple[int, ...]] = list(
        chain.from_iterable(zip(program.stamps, program.checks, strict=True))
    )
    tensors = np.fromiter(chain.from_iterable(groups), dtype=np.int64)
    group = np.repeat(np.arange(len(groups)), [len(its) for its in groups])
    chunks, count = _cut(tensors, layout)
    per_group = np.bincount(group, weights=count, minlength=len(groups)).astype(np.int64)
    of_node = per_group.reshape(-1, 2)
    nodes = np.zeros(program.node_count, dtype=NODE)
    nodes["stamp_chunks"] = of_node[:, 0]
    nodes["chunks"] = of_node.sum(1)
    nodes["first_chunk"] = np.cumsum(of_node.sum(1)) - of_node.sum(1)
    return WorkTable(chunks, nodes)


def _cut(tensors: IntColumn, layout: Layout) -> tuple[Table, IntColumn]:
    """Return the chunks of tensors, one tensor after the other, and the number of each tensor."""
    begin, end = layout.offset[tensors], (layout.offset + layout.size)[tensors]
    window = _window_bytes(layout.size)[tensors]
    first = begin // window
    count = -(-end // window) - first
    span = np.repeat(np.arange(len(tensors)), count)
    within = np.arange(len(span)) - np.repeat(np.cumsum(count) - count, count)
    low = (first[span] + within) * window[span]
    chunks = np.zeros(len(span), dtype=CHUNK)
    chunks["begin"] = np.maximum(low, begin[span])
    chunks["bytes"] = np.minimum(low + window[span], end[span]) - np.maximum(low, begin[span])
    chunks["tensor"] = tensors[span]
    return chunks, count


def _window_bytes(size: IntColumn) -> IntColumn:
    """Return the power of two at whose multiples tensors of each size are cut."""
    wanted = np.maximum(size / CHUNKS_OF_A_LARGE_TENSOR, LEAST_CHUNK_BYTES)
    powers = np.exp2(np.ceil(np.log2(wanted))).astype(np.int64)
    return np.minimum(powers, MOST_CHUNK_BYTES)
