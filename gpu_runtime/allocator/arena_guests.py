"""Finds the guests of an arena: blocks that occupy places of a book and stay."""

from __future__ import annotations

from collections import deque

import numpy as np

from gpu_runtime._core import PlannedAllocator, ProgramRecord
from gpu_runtime.allocator.book import Book
from gpu_runtime.allocator.book_problem import NO_GUESTS

# A block that stayed outside of the places of a book for this many logs is expected to stay. A
# guess.
OLD_LOGS = 4


class ArenaGuests:
    """Blocks that the next book is to be planned around, such as an optimizer's state."""

    def __init__(self) -> None:
        # Rows ``(offset, bytes, request)``.
        self.rows = NO_GUESTS
        # The newest request of each of the last logs that were read.
        self._newest = deque([-1], maxlen=OLD_LOGS)

    def look(
        self, allocator: PlannedAllocator, record: ProgramRecord, book: Book | None, *, wanted: bool
    ) -> None:
        """Note the end of a log; if `wanted`, look for blocks of the arena that stay."""
        before, oldest = self._newest[-1], self._newest[0]
        self._newest.append(record.newest_request)
        if not wanted:
            return
        blocks = allocator.blocks_in_arena()
        request, kind = blocks[:, 2], blocks[:, 3]
        stays = record.stays(np.ascontiguousarray(request)).view(np.bool_)
        # A block of the last step may be freed soon.
        is_guest = ((kind < 0) | stays) & (request <= before)
        is_guest |= np.isin(request, self.rows[:, 2])
        if book is not None:
            is_guest |= ~book.has_at_places(blocks) & (request <= oldest)
            is_guest &= blocks[:, 0] < book.arena_bytes
        self.rows = blocks[is_guest, :3]
