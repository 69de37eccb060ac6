"""Plans of steps that are written by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_runtime._core import StepPlan


def small_plan(places: Sequence[tuple[int, int]], streams: int | Sequence[int] = 0) -> StepPlan:
    """Return the plan of a step whose requests have these bytes and offsets, in order."""
    size, offset = np.array(places, dtype=np.int64).reshape(-1, 2).T.copy()
    stream = np.broadcast_to(np.array(streams, dtype=np.int64), size.shape).copy()
    return StepPlan(-1, stream, size, offset)
