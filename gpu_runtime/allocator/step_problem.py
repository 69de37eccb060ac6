"""The problem of steps that repeat: one arena for the requests of all kinds of step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import BLOCK_ALIGNMENT, NO_PLACE, OUTLIVES, StepKind, StepPlan
from gpu_runtime.allocator.frames_in_use import FramesInUse, frames_in_use
from planners.model.columns import IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem

# A side stream is any stream of a kind but the busiest. A block of a side stream shares its bytes
# with no other block for up to `SIDE_MARGIN` requests before its allocation and after its free. By
# then the earlier work on these bytes is over, so that no stream has to wait for it. The margins
# stay within the step, and raise the most bytes in use by at most `MARGIN_SHARE`. Both are guesses.
SIDE_MARGIN = 32
MARGIN_SHARE = 0.0025

# Most plans of one kind, which its steps follow in turn. Two are enough for what the next step of
# the kind frees.
PHASES = 2


@dataclass(frozen=True)
class StepProblem:
    """Places for the requests of several kinds of step in one arena, as a problem.

    Note: one timeline
    ------------------
    Rationale. Steps run one after the other, so all kinds share one arena. A block that outlives
    its step is alive together with blocks of the steps that follow.

    Approach. All kinds lie one behind the other on one line of time, which is counted in requests.
    A tensor that its own step frees is alive from its request to its free. A tensor that outlives
    its step is alive to the end of the step, and in a later step of its kind from the begin to the
    free. A step of another kind may come between, so the tensor is alive in all other kinds, up to
    its free in a kind that frees it. What lies between is gaps. If a tensor is freed after its next
    request, as by `loss = train(batch)`, its kind lies on the line `PHASES` times, and its steps
    follow these plans in turn. A tensor that needs more phases, or has no known free, has no place.

    Limits. Which phases of two kinds meet is not known. So what a kind leaves to its next step is
    alive once for each of its phases in the other. If kinds alternate so that a tensor lives longer
    than any record says, its place is occupied when it is requested again.
    """

    # A kind appears once for each of its phases.
    kinds: tuple[StepKind, ...]
    # One entry a tensor: the index of its kind in `kinds`, and the number of its request there.
    kind: IntColumn
    request: IntColumn
    problem: Problem
    # Most bytes in use at once during each kind, blocks of other kinds included.
    peaks: tuple[int, ...]
    # Requests with a place in a hole: rows kind, request, offset, address from which it counts.
    in_holes: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 4), dtype=np.int64))

    def frames_in_use(self, blocks: NDArray[np.int64], page_bytes: int) -> FramesInUse:
        """Return the frames of those blocks in use that get no place."""
        is_placed = np.zeros(len(blocks), dtype=bool)
        for index, request in ((self.kind, self.request), self.in_holes[:, :2].T):
            number = np.array([kind.number for kind in self.kinds])[index]
            is_placed |= np.isin(blocks[:, 3] << 32 | blocks[:, 4], number << 32 | request)
        return frames_in_use(blocks[~is_placed], page_bytes)

    def with_holes(self, frames: FramesInUse) -> StepProblem:
        """Return the problem without the tensors that fit into holes."""
        stream = np.concatenate([kind.requests[:, 0] for kind in self.kinds])
        base = np.cumsum([0, *(len(kind.requests) for kind in self.kinds)])
        filled = frames.fill(self.problem, stream[base[self.kind] + self.request])
        at = filled[:, 0]
        rest = np.delete(np.arange(len(self.kind)), at)
        return replace(
            self,
            kind=self.kind[rest],
            request=self.request[rest],
            problem=self.problem.select(rest),
            in_holes=np.column_stack([self.kind[at], self.request[at], filled[:, 1:]]),
        )

    def plans(self, plan: Plan) -> list[StepPlan]:
        """Return the plan of each kind in the form that the allocator adopts."""
        made = []
        for index, kind in enumerate(self.kinds):
            stream, size, _ = kind.requests.T
            offset = np.full(len(size), NO_PLACE, dtype=np.int64)
            its = self.kind == index
            offset[self.request[its]] = plan.offsets[its]
            beside = np.zeros(len(size), dtype=np.uint64)
            _, request, *place = self.in_holes[self.in_holes[:, 0] == index].T
            offset[request], beside[request] = place
            made.append(StepPlan(kind.number, stream.copy(), size.copy(), offset, beside))
        return made

    @property
    def escaping_bytes(self) -> int:
        """Most block bytes that requests without a place take in one step of any kind."""
        bytes_of = [_block_bytes(kind.requests[:, 1]) for kind in self.kinds]
        for index, request in ((self.kind, self.request), self.in_holes[:, :2].T):
            for kind, size in enumerate(bytes_of):
                size[request[index == kind]] = 0
        return max(int(size.sum()) for size in bytes_of)


def step_problem(kinds: Sequence[StepKind], most_phases: int = PHASES) -> StepProblem:
    """Return the problem of placing requests of these kinds; others need more phases."""
    kinds = [kind for kind in kinds for _ in range(_phases(kind, most_phases))]
    base = np.cumsum([0, *(len(kind.requests) for kind in kinds)])
    tensors = np.concatenate(
        [_placed(kinds, index, most_phases) for index in range(len(kinds))], axis=1
    )
    kind, request = tensors
    requests = np.concatenate([each.requests for each in kinds])[base[kind] + request]
    size = _block_bytes(requests[:, 1])
    rows = _intervals(kinds, base, kind, request, requests[:, 2])
    live = _live(rows, size, int(base[-1]))
    peaks = tuple(int(live[begin:stop].max(initial=0)) for begin, stop in pairwise(base.tolist()))
    _widen_side_streams(kinds, base, kind, requests, rows, size, live)
    start, end, gaps = _hulls(rows)
    problem = Problem(
        size,
        start,
        end,
        gaps=gaps,
        alignment=np.full(len(size), BLOCK_ALIGNMENT),
        name="steps of training",
        origin={"source": "requests of training steps", "kinds": len(kinds)},
    )
    return StepProblem(tuple(kinds), kind, request, problem, peaks)


def _late_free(kind: StepKind, number: int, count: int) -> tuple[IntColumn, IntColumn]:
    """Return when a step of `kind` frees each block of a step of another, -1 for never; and ages.

    The age is 1 if the block is of the last step of its kind.
    """
    at, age = np.full((2, count), -1, dtype=np.int64)
    rows = kind.late_frees[kind.late_frees[:, 0] == number]
    at[rows[:, 1]], age[rows[:, 1]] = rows[:, 2], rows[:, 3]
    return at, age


def _needed_phases(kind: StepKind) -> IntColumn:
    """Return for each request how many steps of its kind must have places of their own for it."""
    count = len(kind.requests)
    at, age = _late_free(kind, kind.number, count)
    return np.maximum(1, age + (at > np.arange(count)))


def _phases(kind: StepKind, most: int) -> int:
    needed = _needed_phases(kind)
    return int(needed[needed <= most].max(initial=1))


def _placed(kinds: Sequence[StepKind], index: int, most_phases: int) -> NDArray[np.int64]:
    """Return rows kind, request of those requests of one kind that get a place."""
    own = kinds[index]
    count = len(own.requests)
    is_freed_later = np.any(
        np.stack([_late_free(kind, own.number, count)[0] >= 0 for kind in kinds]), axis=0
    )
    outlives = own.requests[:, 2] == OUTLIVES
    placed = ~outlives | (is_freed_later & (_needed_phases(own) <= most_phases))
    return np.stack([np.full(count, index), np.arange(count)])[:, placed]


def _intervals(
    kinds: Sequence[StepKind], base: IntColumn, kind: IntColumn, request: IntColumn, end: IntColumn
) -> NDArray[np.int64]:
    """Return columns ``(tensor, start, end)`` of use; first of each tensor in its own step."""
    tensor = np.arange(len(kind))
    outlives = end == OUTLIVES
    own_end = np.where(outlives, base[kind + 1], base[kind] + end)
    rows = [np.stack([tensor, base[kind] + request, own_end])]
    for index, own in enumerate(kinds):
        its = tensor[outlives & (kind == index)]
        phases = sum(later.number == own.number for later in kinds)
        for other, later in enumerate(kinds):
            at, age = (
                column[request[its]] for column in _late_free(later, own.number, len(own.requests))
            )
            whole = len(later.requests)
            if later.number == own.number:
                # The next step of this kind is one phase on; the tensor is freed `age` steps on.
                steps_on = (other - index - 1) % phases + 1
                until = np.select([age == steps_on, age > steps_on], [at, whole], 0)
            else:
                # A step of another kind may come between the step and the free.
                until = np.where(at >= 0, at, whole)
            rows.append(np.stack([its, np.full(len(its), base[other]), base[other] + until]))
    found = np.concatenate(rows, axis=1)
    return found[:, found[1] < found[2]]


def _hulls(rows: NDArray[np.int64]) -> tuple[IntColumn, IntColumn, NDArray[np.int64]]:
    """Return starts and ends of all lifetimes, and rows ``(tensor, start, end)`` of gaps."""
    tensor, start, end = rows[:, np.lexsort((rows[1], rows[0]))]
    first = np.flatnonzero(np.diff(tensor, prepend=-1))
    last = np.append(first[1:], len(tensor)) - 1
    # Intervals of one tensor are disjoint: in different kinds, or before and after its gap.
    between = np.flatnonzero((np.diff(tensor) == 0) & (start[1:] > end[:-1]))
    gaps = np.stack([tensor[between], end[between], start[between + 1]], axis=1)
    return start[first], end[last], gaps


def _live(rows: NDArray[np.int64], size: IntColumn, duration: int) -> IntColumn:
    """Return the bytes in use at each time of the line, and 0 for its end."""
    tensor, start, end = rows
    change = np.zeros(duration + 1, dtype=np.int64)
    np.add.at(change, start, size[tensor])
    np.add.at(change, end, -size[tensor])
    return np.cumsum(change)


def _widen_side_streams(
    kinds: Sequence[StepKind], base: IntColumn, kind: IntColumn, requests: NDArray[np.int64],
    rows: NDArray[np.int64], size: IntColumn, live: IntColumn,
) -> None:  # fmt: skip
    """Extend lifetimes of side streams at both ends, as far as `MARGIN_SHARE` allows."""
    limit = int(live.max(initial=0) * (1 + MARGIN_SHARE))
    for index, each in enumerate(kinds):
        streams, count = np.unique(each.requests[:, 0], return_counts=True)
        if len(streams) < 2:
            continue
        is_side = (kind == index) & (requests[:, 0] != streams[np.argmax(count)])
        first, last = base[index : index + 2].tolist()
        for tensor in np.flatnonzero(is_side & (requests[:, 2] != OUTLIVES)).tolist():
            begin, stop = rows[1:, tensor].tolist()
            after = live[stop : min(stop + SIDE_MARGIN, last)]
            longer = _room(after, limit - int(size[tensor]))
            after[:longer] += size[tensor]
            before = live[max(begin - SIDE_MARGIN, first) : begin][::-1]
            earlier = _room(before, limit - int(size[tensor]))
            before[:earlier] += size[tensor]
            rows[1:, tensor] = begin - earlier, stop + longer


def _room(live: IntColumn, most: int) -> int:
    """Return the number of entries before the first that is above `most`."""
    full = np.flatnonzero(live > most)
    return int(full[0]) if len(full) else len(live)


def _block_bytes(size: IntColumn) -> IntColumn:
    """Return sizes in bytes rounded up to whole blocks of the allocator."""
    return -(-size // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT
