"""Which logs are kept for a trial."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import LogKind
from gpu_runtime.allocator.recent_steps import MOST_ROWS, MOST_STEPS, RecentSteps


def log_of(rows: int, what: LogKind = LogKind.STEP_BEGINS) -> NDArray[np.int64]:
    log = np.full((rows, 6), LogKind.REQUEST.value)
    log[0, 0] = what.value
    return log


def lengths(recent: RecentSteps) -> list[int]:
    return list(map(len, recent.logs))


def test_the_last_steps_are_kept() -> None:
    recent = RecentSteps()
    for rows in range(1, MOST_STEPS + 4):
        recent.add(log_of(rows))
    assert lengths(recent) == list(range(4, MOST_STEPS + 4))
    recent.lose_track()
    recent.add(log_of(7))
    assert lengths(recent) == [7]


def test_rows_are_bounded() -> None:
    recent = RecentSteps()
    for rows in (9, MOST_ROWS - 3, 2, 1):
        recent.add(log_of(rows))
    assert lengths(recent) == [MOST_ROWS - 3, 2, 1]
    recent.add(log_of(1))
    assert lengths(recent) == [2, 1, 1]
    recent.add(log_of(MOST_ROWS + 1))
    assert lengths(recent) == []


def test_a_log_that_lacks_its_beginning_ends_what_was_known() -> None:
    recent = RecentSteps()
    for what in (LogKind.STEP_BEGINS, LogKind.REQUEST, LogKind.STEP_BEGINS):
        recent.add(log_of(3, what))
    assert lengths(recent) == [3]
