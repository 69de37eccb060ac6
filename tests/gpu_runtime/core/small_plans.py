"""Plans of steps that are written by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_runtime._core import StreamPlan


def stream_plan(
    stream: int, places: Sequence[tuple[int, int]], freed_before: Sequence[Sequence[int]] = ()
) -> StreamPlan:
    """Return the plan of a stream whose requests have these bytes and offsets, in order.

    Request k has before it the frees of its entry, none where not given; what is never listed is
    freed by the end of the step.
    """
    lists = [*freed_before, *[[]] * (len(places) - len(freed_before))]
    return StreamPlan(
        stream,
        np.array([size for size, _ in places], np.int64),
        np.array([offset for _, offset in places], np.int64),
        np.cumsum([0, *map(len, lists)], dtype=np.int32),
        np.array([request for freed in lists for request in freed], np.int32),
    )
