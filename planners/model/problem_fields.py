"""The fields of a problem, and the properties that follow from them alone."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planners.model.blocks import Blocks
from planners.model.columns import BoolColumn, IntColumn
from planners.model.graph import Graph
from planners.model.memories import Memory
from planners.text.plain_text import one_line

# Characters of a name that a message shows.
MOST_SHOWN_NAME = 100

Scalar = str | int | float | bool


class Safety(enum.Enum):
    """The source of safety: it says which pairs of tensors may share bytes."""

    LIFETIMES = "lifetimes"
    GRAPH = "graph"
    PAIRS = "pairs"


@dataclass(frozen=True, eq=False, init=False)
class ProblemFields:
    """The fields of :class:`planners.model.problem.Problem`, for the rest of the model."""

    size: IntColumn
    alignment: IntColumn
    start: IntColumn
    end: IntColumn
    graph: Graph | None
    unsafe_pairs: IntColumn | None
    contiguous: tuple[tuple[int, ...], ...]
    pinned: IntColumn
    gaps: IntColumn
    reuse_prices: IntColumn
    together: tuple[tuple[int, ...], ...]
    apart: IntColumn
    exclusive: IntColumn
    memories: tuple[Memory, ...]
    places: IntColumn
    capacity: int | None
    phase_start: IntColumn | None
    phase_end: IntColumn | None
    dynamic: BoolColumn | None
    layer_start: IntColumn | None
    layer_end: IntColumn | None
    tensor_name: tuple[str, ...] | None
    name: str
    origin: Mapping[str, Scalar]
    blocks: Blocks

    @property
    def tensor_count(self) -> int:
        """Number of tensors."""
        return len(self.size)

    @property
    def safety(self) -> Safety:
        """The source of safety: it says which pairs of tensors may share bytes."""
        if self.graph is not None:
            return Safety.GRAPH
        return Safety.LIFETIMES if self.unsafe_pairs is None else Safety.PAIRS

    @property
    def lifetimes_decide(self) -> bool:
        """True if being unsafe is the same as overlapping in time.

        Nodes of one stream run in the global order. So with a single stream, every reader of one
        tensor precedes the producer of another if and only if their lifetimes are disjoint.
        """
        return not self.pairs_decide and self.stream_count <= 1

    @property
    def has_classes(self) -> bool:
        """True if tensors lie together, or pairs are apart or exclusive."""
        return bool(self.together or len(self.apart) or len(self.exclusive))

    @property
    def pairs_decide(self) -> bool:
        """True if only a list of pairs says which tensors are unsafe."""
        return self.safety is Safety.PAIRS or self.has_classes

    @property
    def stream_count(self) -> int:
        """Number of streams; 1 without a graph."""
        return 1 if self.graph is None else self.graph.stream_count

    @cached_property
    def naive_bytes(self) -> int:
        """Sum of all sizes, which is the peak when no two tensors share a byte, alignment aside."""
        return int(self.size.sum())

    @property
    def cost_decides(self) -> bool:
        """True if the question is which plan costs least, of those that fit."""
        return bool(self.memories) or (self.capacity is not None and len(self.reuse_prices) > 0)

    def describe(self, tensor: int) -> str:
        """Return the name of a tensor in messages: its index, and its name if it has one."""
        if self.tensor_name is None:
            return f"tensor {tensor}"
        return f"tensor {tensor} ({one_line(self.tensor_name[tensor], MOST_SHOWN_NAME)})"

    def segments(self) -> IntColumn:
        """Return the steps in which each tensor needs memory: lifetimes less gaps.

        Rows are ``(tensor, start, end)``, sorted by tensor and start.
        """
        whole = np.column_stack([np.arange(self.tensor_count), self.start, self.end])
        if not len(self.gaps):
            return whole
        gaps = self.gaps[np.lexsort((self.gaps[:, 1], self.gaps[:, 0]))]
        # Each gap splits a lifetime: its begin is an end, and its end is a start. Both are sorted
        # apart.
        starts = np.concatenate([whole[:, [0, 1]], gaps[:, [0, 2]]])
        ends = np.concatenate([whole[:, [0, 2]], gaps[:, [0, 1]]])
        starts = starts[np.lexsort((starts[:, 1], starts[:, 0]))]
        ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
        rows = np.column_stack([starts, ends[:, 1]])
        return rows[rows[:, 1] < rows[:, 2]]


def liveness(problem: ProblemFields) -> tuple[IntColumn, IntColumn]:
    """Return the steps at which the live bytes change, rising, and the bytes alive from each on."""
    tensor, start, end = problem.segments().T
    size = problem.size[tensor]
    steps, position = np.unique(np.concatenate([start, end]), return_inverse=True)
    change = np.zeros(len(steps), dtype=np.int64)
    # Frees and allocations of one step are summed, because lifetimes are half-open.
    np.add.at(change, position, np.concatenate([size, -size]))
    return steps, np.cumsum(change)
