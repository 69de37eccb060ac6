"""What a profiled step asked of the allocator, read from the allocator's log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import LogKind
from planners.model.columns import IntColumn

# When a request ends that is in use for longer than the step after.
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class StreamProfile:
    """The requests of one stream in a step, and when they end.

    Time is counted in requests of the stream: a block that is freed before request ``q`` is made
    ends at ``q``. With ``n`` requests in a step, ``n`` is the end of the step, and ``n + 1 + q`` is
    before request ``q`` of the step after.
    """

    # CUDA handle.
    stream: int
    # int64 bytes as requested, one entry a request.
    size: IntColumn
    # int64 time of each one's end, :data:`NEVER` where none was seen by the end of the step after.
    freed: IntColumn

    @property
    def request_count(self) -> int:
        """Requests in a step."""
        return len(self.size)

    @property
    def freed_in_step(self) -> NDArray[np.bool_]:
        """Whether each request ends in its own step."""
        return self.freed <= self.request_count

    @property
    def freed_in_next(self) -> IntColumn:
        """Time of each request's end in the step after; negative where that is not its end."""
        later = (self.freed > self.request_count) & (self.freed != NEVER)
        return np.where(later, self.freed - self.request_count - 1, -1)


StepProfile = tuple[StreamProfile, ...]


class StepLog:
    """The log of an allocator, from the first profiled step on."""

    def __init__(self) -> None:
        self._rows: NDArray[np.int64] = np.empty((0, 4), dtype=np.int64)
        self._completed: list[bool] = []

    def add(self, rows: NDArray[np.int64]) -> None:
        """Append rows ``(kind, request, bytes, stream)`` as the allocator writes them."""
        self._rows = np.concatenate([self._rows, rows])

    def end_step(self, *, completed: bool) -> None:
        """Say that a step has ended, and whether it came to its own end."""
        self._completed.append(completed)

    @property
    def step_count(self) -> int:
        """Steps that have ended."""
        return len(self._completed)

    def sizes_in_use(self) -> IntColumn:
        """Return the bytes of each request of the last step that is in use at the log's end."""
        begin, end = self._window(self.step_count - 1)
        rows = self._rows[begin:end]
        made = rows[rows[:, 0] == LogKind.REQUEST]
        ended = self._rows[self._rows[:, 0] == LogKind.FREE, 1]
        sizes: IntColumn = made[~np.isin(made[:, 1], ended), 2]
        return sizes

    def repeated_step(self) -> StepProfile | None:
        """Return the last step, if it made the requests of the one before, and any.

        Each request has the later of its ends in the two steps; what the log does not know yet of
        the last one is taken from the step before.
        """
        if self.step_count < 2 or not all(self._completed[-2:]):
            return None
        before, last = self._profile(self.step_count - 2), self._profile(self.step_count - 1)
        if not last or not _same_requests(before, last):
            return None
        return tuple(_later_ends(one, other) for one, other in zip(before, last, strict=True))

    def last_completed_step(self) -> StepProfile | None:
        """Return the last step with requests of which a step after it tells when they end."""
        for step in reversed(range(self.step_count - 1)):
            if self._completed[step] and (profile := self._profile(step)):
                return profile
        return None

    def _requests(self, step: int) -> dict[int, NDArray[np.int64]]:
        begin, end = self._window(step)
        rows = self._rows[begin:end]
        made = rows[rows[:, 0] == LogKind.REQUEST]
        return {stream: made[made[:, 3] == stream] for stream in np.unique(made[:, 3]).tolist()}

    def _profile(self, step: int) -> StepProfile:
        return tuple(
            self._stream_profile(stream, requests, step)
            for stream, requests in self._requests(step).items()
        )

    def _stream_profile(self, stream: int, requests: NDArray[np.int64], step: int) -> StreamProfile:
        """Return what a stream asked for; ends are known until the end of the step after."""
        number = requests[:, 1]
        begin, _ = self._window(step)
        if step + 1 < self.step_count:
            next_begin, stop = self._window(step + 1)
        else:
            next_begin = stop = len(self._rows)
        rows = self._rows[begin:stop]
        made = (rows[:, 0] == LogKind.REQUEST) & (rows[:, 3] == stream)
        # The beginning of the next step counts as one.
        time = np.cumsum(made) + (np.arange(begin, stop) >= next_begin)
        frees = np.flatnonzero((rows[:, 0] == LogKind.FREE) & np.isin(rows[:, 1], number))
        freed = np.full(len(number), NEVER, dtype=np.int64)
        freed[np.searchsorted(number, rows[frees, 1])] = time[frees]
        return StreamProfile(stream, requests[:, 2], freed)

    def _window(self, step: int) -> tuple[int, int]:
        begins = np.flatnonzero(self._rows[:, 0] == LogKind.STEP_BEGINS)
        ends = np.flatnonzero(self._rows[:, 0] == LogKind.STEP_ENDS)
        return int(begins[step]), int(ends[step])


def _same_requests(one: StepProfile, other: StepProfile) -> bool:
    return [profile.stream for profile in one] == [profile.stream for profile in other] and all(
        np.array_equal(a.size, b.size) for a, b in zip(one, other, strict=True)
    )


def _later_ends(before: StreamProfile, last: StreamProfile) -> StreamProfile:
    # What the last step has not freed in itself may end at any time of the next one.
    unknown = last.freed == NEVER
    freed = np.maximum(before.freed, np.where(unknown, before.freed, last.freed))
    freed = np.where(unknown & before.freed_in_step, NEVER, freed)
    return StreamProfile(last.stream, last.size, freed)
