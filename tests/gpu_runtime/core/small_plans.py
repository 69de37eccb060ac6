"""Kinds of step that are written by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu_runtime._core import NO_PLACE, KindPlan


def small_kind(
    places: Sequence[tuple[int, int]], streams: int | Sequence[int] = 0, label: int = 0
) -> KindPlan:
    """Return a kind whose requests always have these bytes and offsets, in order."""
    count = len(places)
    sizes = np.array([size for size, _ in places], np.int64)
    return KindPlan(
        label,
        np.full(count, streams) if isinstance(streams, int) else np.array(streams, np.int64),
        sizes,
        sizes,
        np.array([offset for _, offset in places], np.int64),
        np.full(count, NO_PLACE),
    )
