"""A random program on an online allocator, recorded as PyTorch records its own."""

from __future__ import annotations

from random import Random

from gpu_runtime._core import (
    CountingMemory,
    LedgerMemory,
    LedgerStreams,
    OnlineAllocator,
    PytorchCaching,
    PytorchExpandable,
    RecordedAction,
    SegmentLog,
)

MIB = 1 << 20
SIDE_STREAM = 100
Row = tuple[int, int, int, int]  # action, address, bytes, stream


class RecordedProgram:
    """Allocates and frees, some blocks while another stream uses them, and gives memory back."""

    def __init__(self, seed: int, capacity: int, *, is_expandable: bool) -> None:
        self.random = Random(seed)
        self.ledger = LedgerMemory(2 * MIB, capacity, LedgerStreams.WHEN_TOLD)
        self.log = SegmentLog(self.ledger)
        # Addresses that say nothing about when they were handed out.
        self.places = [place << 33 for place in self.random.sample(range(1, 1 << 14), 4000)]
        self.is_expandable = is_expandable
        if is_expandable:
            self.ledger.dictate_ranges(self.places)
        else:
            self.ledger.dictate_plain(self.places)
        kind = PytorchExpandable if is_expandable else PytorchCaching
        self.counted = CountingMemory(self.log)
        self.allocator: OnlineAllocator = kind(self.counted)
        self.rows: list[Row] = []
        self.live: list[tuple[int, int, int]] = []  # address, bytes, stream
        self.late: list[tuple[tuple[int, int, int], int]] = []  # and the stream that uses it
        self.obtained: list[tuple[int, int]] = []
        self.given_back = 0

    def run(self, turns: int) -> None:
        for turn in range(turns):
            kind = self.random.random()
            if kind < 0.5:
                try:
                    self.allocate()
                except MemoryError:
                    return
            elif kind < 0.85 and self.live:
                self.free(turn if self.random.random() < 0.2 else None)
            elif kind < 0.95 and self.late:
                self.finish(self.random.randrange(len(self.late)))
            elif kind > 0.99:
                self.give_back()

    def allocate(self) -> None:
        most = self.random.choice([3000, MIB, 9 * MIB, 30 * MIB])
        size, stream = self.random.randint(1, most), self.random.randrange(2)
        before = self.waits_and_releases()
        address = self.allocator.allocate(size, stream)
        self.record_leaving(before)
        self.record_obtained(stream)
        self.rows.append((int(RecordedAction.ALLOCATE), address, size, stream))
        self.live.append((address, size, stream))

    def record_obtained(self, stream: int) -> None:
        action = (
            RecordedAction.SEGMENT_MAPPED
            if self.is_expandable
            else RecordedAction.SEGMENT_ALLOCATED
        )
        for address, size, _ in self.log.rows()[len(self.obtained) :].tolist():
            self.rows.append((int(action), address, size, stream))
            self.obtained.append((address, size))

    def free(self, turn: int | None) -> None:
        block = self.live.pop(self.random.randrange(len(self.live)))
        if turn is not None:
            self.allocator.use_on(block[0], SIDE_STREAM + turn)
        self.allocator.free(block[0])
        self.rows.append((int(RecordedAction.FREE_REQUESTED), *block))
        if turn is not None:
            self.late.append((block, SIDE_STREAM + turn))
        else:
            self.rows.append((int(RecordedAction.FREE_COMPLETED), *block))

    def finish(self, which: int) -> None:
        block, stream = self.late.pop(which)
        self.ledger.finish(stream)
        self.allocator.settle()
        self.rows.append((int(RecordedAction.FREE_COMPLETED), *block))

    def give_back(self) -> None:
        before = self.waits_and_releases()
        self.allocator.give_back()
        self.record_leaving(before)

    def waits_and_releases(self) -> int:
        calls = self.counted.calls
        return calls.await_event + calls.release_plain + calls.unmap

    def record_leaving(self, before: int) -> None:
        """Record that all was given back, where it was: then no block waits any more."""
        if self.waits_and_releases() == before:
            return
        for block, _ in self.late:
            self.rows.append((int(RecordedAction.FREE_COMPLETED), *block))
        self.late = []
        action = (
            RecordedAction.SEGMENT_UNMAPPED if self.is_expandable else RecordedAction.SEGMENT_FREED
        )
        self.rows.append((int(action), 0, 0, 0))
        self.given_back += 1
