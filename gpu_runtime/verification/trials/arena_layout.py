"""Places of tensors in an arena: byte for byte, or one word for all bytes that fare alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpu_runtime.verification.trials.stamp_pattern import INDEX_BITS, TENSOR_BITS, WORD_BYTES
from planners.errors import InstanceError
from planners.model.columns import IntColumn
from planners.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Layout:
    """Offsets and sizes in an arena."""

    # int64 bytes of the arena, one a tensor.
    offset: IntColumn
    size: IntColumn
    # The largest ``offset + size``.
    arena_bytes: int
    # Offset in the plan at which the bytes of each arena word begin, with one more entry for the
    # end; None if a byte of the arena is a byte of the plan.
    cell_start: IntColumn | None = None

    @property
    def tensor_count(self) -> int:
        return len(self.size)

    def plan_offset(self, word: int) -> int:
        """Return the offset in the plan at which a word of the arena begins."""
        return word * WORD_BYTES if self.cell_start is None else int(self.cell_start[word])

    def plan_bytes(self, words: IntColumn) -> int:
        """Return the number of bytes of the plan for which whole words of the arena stand."""
        if self.cell_start is None:
            return len(words) * WORD_BYTES
        return int((self.cell_start[words + 1] - self.cell_start[words]).sum())


def full_layout(problem: Problem, offsets: IntColumn) -> Layout:
    """Return the layout with a byte of arena for each byte of the plan."""
    peak = int((offsets + problem.size).max(initial=0))
    if problem.tensor_count > 1 << TENSOR_BITS or peak > WORD_BYTES << INDEX_BITS:
        raise InstanceError(
            f"verification takes up to 2**{TENSOR_BITS} tensors and 4 TiB, found "
            f"{problem.tensor_count} tensors and a peak of {peak} bytes"
        )
    return Layout(offsets, problem.size, peak)


def compressed(layout: Layout) -> Layout:
    """Return the layout with one word for all bytes that the same tensors cover.

    All bytes between two neighbouring boundaries of tensors are covered by the same tensors. The
    same nodes stamp and check them, so one word stands for all. There are at most two words a
    tensor. A compressed arena cannot reveal wrong byte arithmetic, for example in a kernel.
    """
    end = layout.offset + layout.size
    filled = layout.size > 0
    bounds = np.unique(np.concatenate([layout.offset[filled], end[filled]]))
    offset = np.searchsorted(bounds, layout.offset) * WORD_BYTES
    size = np.searchsorted(bounds, end) * WORD_BYTES - offset
    words = max(len(bounds) - 1, 0)
    return Layout(offset, size, words * WORD_BYTES, cell_start=bounds)
