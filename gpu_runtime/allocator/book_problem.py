"""The problem of a book: one arena for the requests of several kinds of step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import BLOCK_ALIGNMENT
from gpu_runtime.allocator.step_kind import StepKind, block_bytes
from planners.model.columns import BoolColumn, IntColumn
from planners.model.problem import Problem

# A kind whose most bytes in use at once are below this number gets no places. A guess.
LEAST_PEAK = 1 << 20
# A side stream is any stream of a kind but the busiest. A block of a side stream shares its bytes
# with no other block for up to `SIDE_MARGIN` requests before its allocation and after its free. By
# then the earlier work on these bytes is over, so that no stream has to wait for it. The margins
# stay within the step, and raise the most bytes in use by at most `MARGIN_SHARE`. Both are guesses.
SIDE_MARGIN = 32
MARGIN_SHARE = 0.0025


@dataclass(frozen=True)
class BookProblem:
    """Places for the requests of several kinds of step in one arena, as a problem.

    Note: one timeline
    ------------------
    Rationale. Steps run one after the other, so all kinds share one arena. A block that outlives
    its step is alive together with blocks of the steps that follow.

    Approach. All kinds lie one behind the other on one line of time. A tensor is alive in its own
    kind from its request to its latest end. In each kind that followed while the tensor was in
    use, it is alive from the beginning to its latest end there. Its lifetime spans all these
    intervals, and the time between them is gaps. So two tensors that were ever seen alive together
    overlap on the line. Steps of different kinds never overlap, so their order does not matter.

    Limits. Two tensors may be alive together that never were before. An example is a tensor that
    outlives its step when a step of another kind follows for the first time. If its place is then
    needed for another tensor, the heap serves that request, and the next book knows of the overlap.
    """

    kinds: tuple[StepKind, ...]
    # One entry a tensor: index of its kind in `kinds`, its slot, and whether it is a spare place,
    # which serves the slot while an earlier step holds the first place. Guests have -1, -1, False.
    kind: IntColumn
    slot: IntColumn
    is_spare: BoolColumn
    # Rows ``(offset, bytes, request)`` of blocks that belong to no kind and keep their place in the
    # arena.
    guests: NDArray[np.int64]
    # Sizes are rounded up to whole blocks, and time is counted in requests. Guests come last.
    problem: Problem
    # Most bytes in use at once during each kind, blocks of other kinds included.
    peaks: tuple[int, ...]
    # Kinds with a lower peak have no places.
    least_peak: int


NO_GUESTS = np.empty((0, 3), dtype=np.int64)


def book_problem(
    kinds: Sequence[StepKind],
    least_peak: int = LEAST_PEAK,
    guests: NDArray[np.int64] = NO_GUESTS,
) -> BookProblem:
    """Return the problem of kinds and guests; kinds below the least peak get no places."""
    tensors = _Tensors(kinds, [True] * len(kinds))
    peaks = tensors.peaks()
    if min(peaks, default=least_peak) < least_peak:
        tensors = _Tensors(kinds, [peak >= least_peak for peak in peaks])
    tensors.widen_side_streams()
    start, end, gaps = tensors.hulls()
    count, always = len(start), np.ones(len(guests), dtype=np.int64)
    if not count:
        guests, always = guests[:0], always[:0]
    problem = Problem(
        np.concatenate([tensors.size, guests[:, 1]]),
        np.concatenate([start, 0 * always]),
        np.concatenate([end, tensors.duration * always]),
        gaps=gaps,
        alignment=np.full(count + len(guests), BLOCK_ALIGNMENT),
        pinned={count + index: offset for index, offset in enumerate(guests[:, 0].tolist())},
        name="steps of training",
        origin={"source": "requests of training steps", "kinds": len(kinds)},
    )
    return BookProblem(
        tuple(kinds),
        np.append(tensors.kind, -always),
        np.append(tensors.slot, -always),
        np.append(tensors.is_spare, always < 0),
        guests,
        problem,
        tuple(peaks),
        least_peak,
    )


_Hulls = tuple[IntColumn, IntColumn, NDArray[np.int64]]


class _Tensors:
    """The tensors of all kinds on one line of time; of each kind all first places, then spares."""

    def __init__(self, kinds: Sequence[StepKind], has_places: Sequence[bool]) -> None:
        self._kinds = kinds
        self._base = np.cumsum([0, *(kind.slot_count for kind in kinds)])
        parts = [
            _placed(kind, index, has)
            for index, (kind, has) in enumerate(zip(kinds, has_places, strict=True))
        ]
        columns = np.concatenate([np.empty((6, 0), dtype=np.int64), *parts], axis=1)
        self.kind, self.slot, spare, self.size, self._start, self._end = columns
        self.is_spare = spare.astype(np.bool_)
        self._hulls: _Hulls | None = None

    @property
    def duration(self) -> int:
        """Number of requests on the line of time."""
        return int(self._base[-1])

    def hulls(self) -> _Hulls:
        """Return starts and ends of all lifetimes, and rows ``(tensor, start, end)`` of gaps."""
        if self._hulls is None:
            self._hulls = self._made_hulls()
        return self._hulls

    def peaks(self) -> list[int]:
        """Return the most bytes in use at once in each kind."""
        live, base = self._live(), self._base.tolist()
        return [int(live[begin:stop].max(initial=0)) for begin, stop in pairwise(base)]

    def widen_side_streams(self) -> None:
        """Extend lifetimes of side streams at both ends, as far as `MARGIN_SHARE` allows."""
        is_side = np.concatenate([np.empty(0, dtype=np.bool_), *map(_is_side, self._kinds)])
        sides = np.flatnonzero(is_side[self._base[self.kind] + self.slot])
        if not len(sides):
            return
        live = self._live()
        limit = int(live.max(initial=0) * (1 + MARGIN_SHARE))
        for tensor in sides.tolist():
            kind = self.kind[tensor]
            base, size = self._base[kind], self.size[tensor]
            begin, end = base + self._start[tensor], base + self._end[tensor]
            after = live[end : min(end + SIDE_MARGIN, self._base[kind + 1])]
            longer = _room(after, limit - size)
            after[:longer] += size
            before = live[max(begin - SIDE_MARGIN, base) : begin][::-1]
            earlier = _room(before, limit - size)
            before[:earlier] += size
            self._start[tensor] -= earlier
            self._end[tensor] += longer
        self._hulls = None

    def _made_hulls(self) -> _Hulls:
        rows = self._intervals()
        tensor, start, end = rows[:, np.lexsort((rows[1], rows[0]))]
        if not len(tensor):
            return tensor, start, np.empty((0, 3), dtype=np.int64)
        # The latest end so far among intervals of the same tensor. The multiple of `span` keeps the
        # ends of earlier tensors below.
        span = int(end.max()) + 1
        reach = np.maximum.accumulate(end + tensor * span) - tensor * span
        first = np.flatnonzero(np.diff(tensor, prepend=-1))
        last = np.append(first[1:], len(tensor)) - 1
        between = np.flatnonzero((np.diff(tensor) == 0) & (start[1:] > reach[:-1]))
        gaps = np.stack([tensor[between], reach[between], start[between + 1]], axis=1)
        return start[first], reach[last], gaps

    def _intervals(self) -> NDArray[np.int64]:
        """Return columns ``(tensor, start, end)`` of use; intervals of one tensor may overlap."""
        tensor = np.arange(len(self.kind))
        base = self._base[self.kind]
        rows = [np.stack([tensor, base + self._start, base + self._end])]
        place = {kind.number: index for index, kind in enumerate(self._kinds)}
        for index, kind in enumerate(self._kinds):
            its = tensor[(self.kind == index) & ~self.is_spare]
            for number, ends in kind.later.items():
                if number not in place:
                    continue
                end = ends[self.slot[its]]
                alive = end > 0
                begin = np.full(np.count_nonzero(alive), self._base[place[number]])
                rows.append(np.stack([its[alive], begin, begin + end[alive]]))
        return np.concatenate(rows, axis=1)

    def _live(self) -> IntColumn:
        """Return the bytes in use at each time of the line, and 0 for its end."""
        start, end, gaps = self.hulls()
        change = np.zeros(self._base[-1] + 1, dtype=np.int64)
        np.add.at(change, start, self.size)
        np.add.at(change, end, -self.size)
        np.add.at(change, gaps[:, 1], -self.size[gaps[:, 0]])
        np.add.at(change, gaps[:, 2], self.size[gaps[:, 0]])
        return np.cumsum(change)


def _placed(kind: StepKind, index: int, has_places: bool) -> NDArray[np.int64]:
    """Return columns of a kind's tensors: kind, slot, 1 for a spare, bytes, start, end."""
    if not has_places:
        return np.empty((6, 0), dtype=np.int64)
    slots = np.flatnonzero(~kind.escapes)
    spare = np.flatnonzero(kind.alternates)
    slot = np.concatenate([slots, spare])
    is_spare = np.repeat([0, 1], [len(slots), len(spare)])
    end = np.where(is_spare == 1, kind.short_end[slot], kind.end[slot])
    size = block_bytes(kind.most[slot])
    return np.stack([np.full(len(slot), index), slot, is_spare, size, slot, end])


def _room(live: IntColumn, most: int) -> int:
    """Return the number of entries before the first that is above `most`."""
    full = np.flatnonzero(live > most)
    return int(full[0]) if len(full) else len(live)


def _is_side(kind: StepKind) -> BoolColumn:
    streams, of, count = np.unique(kind.stream, return_inverse=True, return_counts=True)
    if len(streams) < 2:
        return np.zeros(kind.slot_count, dtype=np.bool_)
    is_side: BoolColumn = of != np.argmax(count)
    return is_side
