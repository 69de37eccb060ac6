"""From kinds of step to one problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import BLOCK_ALIGNMENT
from gpu_runtime.allocator.step_kind import StepKind, block_bytes
from planners.model.columns import IntColumn
from planners.model.problem import Problem

# A kind that needs fewer bytes at once is not planned.
LEAST_PEAK = 1 << 20
# Blocks of other streams than the busiest are kept from others for so many requests before and
# after, within their step: what another stream did with their bytes is over by then, and nobody
# waits for it.
MARGIN_BEFORE = 32
MARGIN_AFTER = 32


@dataclass(frozen=True)
class BookProblem:
    """Places for the requests of several kinds of step in one arena, as a problem.

    Note: one timeline
    ------------------
    Rationale. Kinds of step share an arena, since they run one after the other. What one leaves
    for a while meets what the next ones make.

    Approach. The kinds lie on one line of time one behind the other, in any order. A tensor needs
    memory in its own kind from its request on, and in each kind that came after while it was in
    use from the beginning on. The lifetime is the hull of these; the rest of it are gaps. Two
    tensors of one kind, or one of another kind that lives in it, meet on the line wherever they
    ever met; steps of different kinds never do, so that their order does not matter.

    Limits. What was never seen together may come together: a tensor that lives through kind A
    where B comes between for the first time. Then its place is taken, and the next book knows.
    """

    kinds: tuple[StepKind, ...]
    # Kind, by its place in `kinds`, and slot of each tensor.
    kind: IntColumn
    slot: IntColumn
    # Sizes rounded up to blocks, time counted in requests.
    problem: Problem
    # Most bytes that each kind has in use at once, of its own and of others.
    peaks: tuple[int, ...]
    # Kinds with a lower one have no places.
    least_peak: int


def book_problem(kinds: Sequence[StepKind], least_peak: int = LEAST_PEAK) -> BookProblem:
    """Return the problem of some kinds; those below a peak have no places."""
    placed = [np.flatnonzero(~kind.escapes & _lives(kind)) for kind in kinds]
    intervals = _intervals(kinds, placed)
    peaks = _peaks(kinds, placed, intervals)
    too_small = [peak < least_peak for peak in peaks]
    if any(too_small):
        placed = [
            slots[:0] if small else slots for slots, small in zip(placed, too_small, strict=True)
        ]
        intervals = _intervals(kinds, placed)
    sizes = [block_bytes(kind.most[slots]) for kind, slots in zip(kinds, placed, strict=True)]
    start, end, gaps = _hulls(intervals)
    problem = Problem(
        np.concatenate([np.zeros(0, dtype=np.int64), *sizes]),
        start,
        end,
        gaps=gaps,
        alignment=np.full(len(start), BLOCK_ALIGNMENT),
        name="steps of training",
        origin={"source": "requests of training steps", "kinds": len(kinds)},
    )
    counts = [len(slots) for slots in placed]
    return BookProblem(
        tuple(kinds),
        np.repeat(np.arange(len(kinds)), counts),
        np.concatenate([np.zeros(0, dtype=np.int64), *placed]),
        problem,
        tuple(peaks),
        least_peak,
    )


def _lives(kind: StepKind) -> NDArray[np.bool_]:
    return kind.end > np.arange(kind.slot_count)


def _intervals(kinds: Sequence[StepKind], placed: Sequence[IntColumn]) -> NDArray[np.int64]:
    """Rows ``(tensor, start, end)``; those of a tensor may overlap."""
    base = np.cumsum([0, *(kind.slot_count for kind in kinds)])
    place = {kind.number: index for index, kind in enumerate(kinds)}
    rows = [np.empty((3, 0), dtype=np.int64)]
    first = 0
    for index, (kind, slots) in enumerate(zip(kinds, placed, strict=True)):
        tensor = np.arange(first, first + len(slots))
        side = _is_side(kind)[slots]
        margin = MARGIN_AFTER * side
        start = np.maximum(slots - MARGIN_BEFORE * side, 0)
        end = np.minimum(kind.end[slots] + margin, kind.slot_count)
        rows.append(np.stack([tensor, base[index] + start, base[index] + end]))
        for number, ends in kind.later.items():
            if number not in place:
                continue
            other = place[number]
            alive = ends[slots] > 0
            last = np.minimum(ends[slots] + margin, kinds[other].slot_count)[alive]
            begin = np.full(len(last), base[other])
            rows.append(np.stack([tensor[alive], begin, base[other] + last]))
        first += len(slots)
    return np.concatenate(rows, axis=1).T


def _is_side(kind: StepKind) -> NDArray[np.bool_]:
    streams, of, count = np.unique(kind.stream, return_inverse=True, return_counts=True)
    if len(streams) < 2:
        return np.zeros(kind.slot_count, dtype=np.bool_)
    is_side: NDArray[np.bool_] = of != np.argmax(count)
    return is_side


def _hulls(intervals: NDArray[np.int64]) -> tuple[IntColumn, IntColumn, NDArray[np.int64]]:
    """Lifetimes, and rows ``(tensor, start, end)`` of what lies between their intervals."""
    tensor, start, end = intervals[np.lexsort((intervals[:, 1], intervals[:, 0]))].T
    if not len(tensor):
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, np.empty((0, 3), dtype=np.int64)
    # Ends of all intervals so far, of the own tensor: those of the ones before are below.
    span = int(end.max()) + 1
    reach = np.maximum.accumulate(end + tensor * span) - tensor * span
    first = np.flatnonzero(np.diff(tensor, prepend=-1))
    last = np.append(first[1:], len(tensor)) - 1
    between = np.flatnonzero((np.diff(tensor) == 0) & (start[1:] > reach[:-1]))
    gaps = np.stack([tensor[between], reach[between], start[between + 1]], axis=1)
    return start[first], reach[last], gaps


def _peaks(
    kinds: Sequence[StepKind], placed: Sequence[IntColumn], intervals: NDArray[np.int64]
) -> list[int]:
    total = sum(kind.slot_count for kind in kinds)
    sizes = [block_bytes(kind.most[slots]) for kind, slots in zip(kinds, placed, strict=True)]
    size = np.concatenate([np.zeros(0, dtype=np.int64), *sizes])
    start, end, gaps = _hulls(intervals)
    change = np.zeros(total + 1, dtype=np.int64)
    np.add.at(change, start, size)
    np.add.at(change, end, -size)
    np.add.at(change, gaps[:, 1], -size[gaps[:, 0]])
    np.add.at(change, gaps[:, 2], size[gaps[:, 0]])
    live = np.cumsum(change)
    base = np.cumsum([0, *(kind.slot_count for kind in kinds)]).tolist()
    return [int(live[begin:stop].max(initial=0)) for begin, stop in pairwise(base)]
