"""An allocator without memory: it asks a book, and keeps blocks apart by looking at them all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import NO_PLACE, KindPlan, LogKind, Place, StepBook, StepEnd


@dataclass
class Figures:
    """What the planner asks for."""

    allocated_bytes: int = 0
    fallback_requests: int = 0
    fallback_bytes: int = 0


@dataclass
class Live:
    """A block in use."""

    number: int
    size: int
    place: Place
    # Whether it lies at its place.
    is_served: bool


class BookAllocator:
    """Serves places of a book where they are free, and says of all else that it fell back."""

    def __init__(self) -> None:
        self.book = StepBook([], 0)
        self.books: list[list[KindPlan]] = []
        self.arena_bytes = 0
        self.arena_limit = 1 << 60
        self.live: dict[int, Live] = {}
        self.peak_bytes = 0
        self.dropped_logs = 0
        self.given_back = 0
        # Rows of blocks that lie in the arena, and are not of the program.
        self.guests: list[tuple[int, ...]] = []
        self._figures = Figures()
        self._log: list[tuple[int, ...]] = []
        self._next = 0

    def request(self, size: int, stream: int) -> int:
        place = self.book.request(stream, size)
        end = place.offset + rounded(size)
        is_served = place.offset != NO_PLACE and not any(
            block.is_served and block.place.offset < end
            and place.offset < block.place.offset + rounded(block.size)
            for block in self.live.values()
        )  # fmt: skip
        expected = place.kind >= 0 and place.offset == NO_PLACE and place.mismatch is None
        if not is_served and not expected:
            self._figures.fallback_requests += 1
            self._figures.fallback_bytes += size
        number, self._next = self._next, self._next + 1
        self.live[number] = Live(number, size, place, is_served)
        self._figures.allocated_bytes += rounded(size)
        self.peak_bytes = max(self.peak_bytes, self._figures.allocated_bytes)
        self._log.append((LogKind.REQUEST, number, size, stream, place.kind, place.slot))
        return number

    def free(self, number: int) -> None:
        block = self.live.pop(number)
        self._figures.allocated_bytes -= rounded(block.size)
        place = block.place
        self._log.append((LogKind.FREE, number, block.size, 0, place.kind, place.slot))

    def begin_step(self, label: int = 0) -> StepEnd:
        end = self.book.end_step()
        self.book.begin_step(label)
        self._log.append((LogKind.STEP_BEGINS, -1, label, 0, -1, -1))
        return end

    def end_step(self) -> StepEnd:
        self._log.append((LogKind.STEP_ENDS, -1, 0, 0, -1, -1))
        return self.book.end_step()

    def take_log(self) -> NDArray[np.int64]:
        log = np.array(self._log, dtype=np.int64).reshape(-1, 6)
        self._log.clear()
        return log

    def drop_log(self) -> None:
        self.dropped_logs += 1
        self._log.clear()

    def adopt_book(self, kinds: list[KindPlan], arena_bytes: int) -> None:
        if arena_bytes > self.arena_limit:
            raise MemoryError(f"{arena_bytes} bytes")
        self.book = StepBook(kinds, arena_bytes)
        self.books.append(kinds)
        self.arena_bytes = arena_bytes

    def blocks_in_arena(self) -> NDArray[np.int64]:
        rows = [
            (block.place.offset, rounded(block.size), number, block.place.kind, block.place.slot)
            for number, block in self.live.items()
            if block.is_served
        ]
        return np.array([*rows, *self.guests], dtype=np.int64).reshape(-1, 5)

    def give_back(self) -> int:
        self.given_back += 1
        return 0

    def figures(self) -> Figures:
        return self._figures


def rounded(size: int) -> int:
    return -(-size // 512) * 512
