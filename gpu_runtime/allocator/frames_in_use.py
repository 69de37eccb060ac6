"""The frames of blocks that no plan places, and their free bytes, which a plan can use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planners.model.columns import IntColumn
from planners.model.problem import Problem

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class FramesInUse:
    """Frames that the arena cannot get.

    Note: holes
    -----------
    Rationale. Weights and optimizer states lie between blocks of the first steps. When these are
    gone, each frame that holds such a block has free bytes, its *holes*. PyTorch's allocators use
    them, so an arena beside these frames may need more than PyTorch would hold.
    Approach. If it does, small tensors get a fixed range of a hole, largest first, at the first
    height that is free while they live. The others are planned in the arena again.
    Limits. A hole is of one stream. What the heap puts into a hole is in the plan's way.
    """

    count: int
    # Columns: bytes, stream, address, and the address of a block in use that touches the hole.
    holes: Rows

    def fill(self, problem: Problem, stream: IntColumn) -> Rows:
        """Return rows ``(tensor, offset, address of the block from which it counts)``."""
        holes = self.holes[np.argsort(self.holes[:, 0], kind="stable")]
        small = np.flatnonzero((problem.size > 0) & (problem.size <= holes[:, 0].max(initial=0)))
        small = small[np.argsort(-problem.size[small], kind="stable")]
        alive = _intervals(problem, small)
        # Heights change only where a small tensor begins or ends.
        times = np.unique([time for its in alive.values() for pair in its for time in pair])
        height = np.zeros((len(holes), len(times)), dtype=np.int32)
        filled = []
        for tensor in small.tolist():
            size = int(problem.size[tensor])
            pieces = np.searchsorted(times, alive[tensor]).tolist()
            its = np.flatnonzero((holes[:, 0] >= size) & (holes[:, 1] == stream[tensor]))
            top = np.max([height[its, begin:end].max(axis=1) for begin, end in pieces], 0)
            fits = np.flatnonzero(top + size <= holes[its, 0])
            if not len(fits):
                continue
            hole, offset = its[fits[0]], int(top[fits[0]])
            for begin, end in pieces:
                height[hole, begin:end] = offset + size
            _, _, address, beside = holes[hole].tolist()
            filled.append((tensor, address + offset - beside, beside))
        return np.array(filled, dtype=np.int64).reshape(-1, 3)


def frames_in_use(blocks: Rows, page_bytes: int) -> FramesInUse:
    """Return the frames of blocks, which are rows ``(address, bytes, stream, ...)`` by address."""
    begin, size, stream = blocks[:, :3].T
    end = begin + size
    first, last = begin // page_bytes, (end - 1) // page_bytes
    count = int((last - first + 1).sum() - np.count_nonzero(first[1:] == last[:-1]))
    # A hole reaches to the next block in use, or to the end of the last frame in between.
    next_begin = np.append(begin, np.iinfo(np.int64).max)[1:]
    is_one = np.append(first[1:] <= last[:-1] + 1, False)[: len(begin)]
    behind = np.where(is_one, next_begin, (last + 1) * page_bytes)
    before = ~np.append(False, is_one)[: len(begin)]
    holes = np.concatenate(
        [
            np.stack([behind - end, stream, end, begin], axis=1),
            np.stack([begin % page_bytes, stream, first * page_bytes, begin], axis=1)[before],
        ]
    )
    return FramesInUse(count, holes[holes[:, 0] > 0])


def _intervals(problem: Problem, tensors: IntColumn) -> dict[int, list[tuple[int, int]]]:
    """Return for each of some tensors when it needs memory."""
    cuts = {tensor: [int(problem.start[tensor])] for tensor in tensors.tolist()}
    for tensor, start, end in problem.gaps.tolist():
        if tensor in cuts:
            cuts[tensor] += [start, end]
    for tensor, cut in cuts.items():
        cut.append(int(problem.end[tensor]))
    return {tensor: list(zip(cut[::2], cut[1::2], strict=True)) for tensor, cut in cuts.items()}
