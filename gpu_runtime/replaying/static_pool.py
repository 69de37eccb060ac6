"""The blocks in STWeaver's static pool while a run is replayed, and the free bytes between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class StaticPool:
    """Live blocks of a pool, none of which overlap."""

    def __init__(self) -> None:
        # Begin and end of the live blocks, in ascending order.
        self._start: list[int] = []
        self._end: list[int] = []

    def take(self, offset: int, size: int) -> bool:
        """Take a range of bytes and return True; return False if one of them is taken."""
        at = bisect_left(self._start, offset)
        if at and self._end[at - 1] > offset:
            return False
        if at < len(self._start) and self._start[at] < offset + size:
            return False
        self._start.insert(at, offset)
        self._end.insert(at, offset + size)
        return True

    def free(self, offset: int) -> None:
        """Free the block that begins at an offset."""
        at = bisect_left(self._start, offset)
        del self._start[at], self._end[at]

    def best_fit(self, intervals: Sequence[tuple[int, int]], size: int) -> int | None:
        """Return the begin of the smallest free run of at least `size` bytes within some intervals.

        Source: Huang et al. 2026, section 6.2, equation 6.
        """
        best, least = None, 0
        starts, ends = self._start, self._end
        for first, end in intervals:
            if end - first < size:
                continue
            at = bisect_left(starts, first)
            begin = max(first, ends[at - 1]) if at else first
            # Look at the gaps between the live blocks, and at the one behind the last.
            while begin < end:
                inside = at < len(starts) and starts[at] < end
                room = (starts[at] if inside else end) - begin
                if room >= size and (best is None or room < least):
                    best, least = begin, room
                if not inside:
                    break
                begin = ends[at]
                at += 1
        return best
