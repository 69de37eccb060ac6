"""What one step asked for, or what ran between two steps, read from the allocator's log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import BETWEEN_STEPS, LogKind
from planners.model.columns import IntColumn

# Columns of a row of the log.
WHAT, REQUEST, BYTES, STREAM, KIND, SLOT = range(6)


@dataclass(frozen=True)
class Segment:
    """One step, or what ran between two steps.

    Time is counted in requests of all streams together: what is freed before request ``q`` is made
    ends at ``q``, and with ``n`` requests ``n`` is the end.
    """

    # As the step was begun with; -1 for what ran between two steps.
    label: int
    # Entries for each request: number since the program began, handle, bytes as requested.
    request: IntColumn
    stream: IntColumn
    size: IntColumn
    # Entries for each free: number of the request, when, and as which request of which kind of the
    # book it was served, -1 for none.
    freed: IntColumn
    freed_at: IntColumn
    freed_kind: IntColumn
    freed_slot: IntColumn

    @property
    def request_count(self) -> int:
        """How many requests were made."""
        return len(self.request)


def segments_of(rows: NDArray[np.int64]) -> Iterator[Segment]:
    """Yield what whole segments a log has; it begins outside of a step and ends at a step's end."""
    marks = np.flatnonzero(rows[:, WHAT] >= LogKind.STEP_BEGINS)
    if len(marks) and rows[marks[0], WHAT] == LogKind.STEP_ENDS:
        # The allocator forgot the beginning of a log that became too long.
        return
    label, begin = BETWEEN_STEPS, 0
    for mark in marks.tolist():
        yield _segment(label, rows[begin:mark])
        is_begin = rows[mark, WHAT] == LogKind.STEP_BEGINS
        label = int(rows[mark, BYTES]) if is_begin else BETWEEN_STEPS
        begin = mark + 1


def _segment(label: int, rows: NDArray[np.int64]) -> Segment:
    is_request = rows[:, WHAT] == LogKind.REQUEST
    made, freed = rows[is_request], rows[~is_request]
    return Segment(
        label,
        made[:, REQUEST],
        made[:, STREAM],
        made[:, BYTES],
        freed[:, REQUEST],
        np.cumsum(is_request)[~is_request],
        freed[:, KIND],
        freed[:, SLOT],
    )
