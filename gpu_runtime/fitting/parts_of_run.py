"""The parts of a run, each with a peak of its own: what comes before the steps, and the steps."""

from __future__ import annotations

from itertools import pairwise

from planners.model.columns import IntColumn

SET_UP = "set-up"
PARTS = (SET_UP, "first step", "later steps")


def peaks_of_parts(after: IntColumn, begins: IntColumn) -> tuple[int, ...]:
    """Return the largest of the bytes after each row in each part; 0 for a part without rows."""
    bounds = [0, *begins[: len(PARTS) - 1].tolist()]
    bounds += [len(after)] * (len(PARTS) + 1 - len(bounds))
    return tuple(int(after[begin:end].max(initial=0)) for begin, end in pairwise(bounds))
