"""VPMM's rules page by page: slow and obvious, for comparison.

Each page's worth of addresses is a slot. Regions are not kept: a free region is the longest run of
free slots of one stream, a hole the longest run of slots without memory.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby


class Kind(Enum):
    """What a slot is."""

    LIVE = "live"
    PENDING = "pending"
    FREE = "free"
    HOLE = "hole"
    ZOMBIE = "zombie"


class NoMemoryError(Exception):
    """There is no page left."""


@dataclass(frozen=True)
class Mark:
    """An event: so many were recorded on its stream. Those of the start are done."""

    number: int = 0  # in the order of the frees
    stream: int = 0
    position: int = 0


@dataclass
class Slot:
    """A page's worth of addresses."""

    kind: Kind = Kind.HOLE
    stream: int = 0
    block: int = 0  # of a live, a pending, a zombie slot: which one
    mark: Mark = field(default_factory=Mark)
    page: int = 0


@dataclass
class Block:
    """What a request got."""

    stream: int
    pages: int
    used_on: list[int] = field(default_factory=list)
    waits_for: list[Mark] = field(default_factory=list)


Run = tuple[int, int]  # the first slot, and how many


class Reference:
    """The rules, over streams that are done when somebody says so."""

    def __init__(self, *, pages: int, chunk: int, capacity: int) -> None:
        self.chunk = chunk
        self.capacity = capacity
        self.chunks: list[int] = [0]  # their first slots
        self.next_chunk = chunk
        self.slots: dict[int, Slot] = {at: Slot() for at in range(chunk)}
        self.blocks: dict[int, Block] = {}  # live ones, by their first slot
        self.freed: dict[int, Block] = {}  # pending ones, the same
        self.recorded: Counter[int] = Counter()
        self.done: Counter[int] = Counter()
        self.made: set[int] = set()
        self.next_page = 1
        self.frees = 0
        self.numbers = 0
        self.calls: Counter[str] = Counter(reserve_range=1)
        if pages:
            self.put_free(self.gather(pages, 0), 0, Mark())

    # Streams.

    def finish(self, stream: int) -> None:
        self.done[stream] = self.recorded[stream]

    def is_done(self, mark: Mark) -> bool:
        return mark.position <= self.done[mark.stream]

    def record(self, stream: int) -> Mark:
        self.recorded[stream] += 1
        self.calls["record_event"] += 1
        return Mark(0, stream, self.recorded[stream])

    def record_free(self, stream: int) -> Mark:
        self.frees += 1
        return Mark(self.frees, stream, self.record(stream).position)

    def wait_on_host(self, mark: Mark) -> None:
        if mark.position > 0:
            self.done[mark.stream] = max(self.done[mark.stream], mark.position)

    # Runs of slots.

    def layout(self) -> list[tuple[int, int, Kind]]:
        """Return the first slot, the slots and the kind of each region, by address."""

        def which(slot: Slot) -> tuple[Kind, int]:
            if slot.kind == Kind.HOLE:
                return Kind.HOLE, 0
            return slot.kind, slot.stream if slot.kind == Kind.FREE else slot.block

        found = []
        for first in self.chunks:
            at = first
            slots = (self.slots[first + i] for i in range(self.chunk))
            for (kind, _), group in groupby(slots, key=which):
                count = len(list(group))
                found.append((at, count, kind))
                at += count
        return found

    def runs(self, kind: Kind) -> list[Run]:
        return [(first, count) for first, count, found in self.layout() if found == kind]

    def inside(self, run: Run) -> list[Slot]:
        return [self.slots[at] for at in range(run[0], run[0] + run[1])]

    def put_free(self, run: Run, stream: int, mark: Mark) -> None:
        for slot in self.inside(run):
            slot.kind, slot.stream, slot.mark = Kind.FREE, stream, mark
        # The latest event speaks for the whole region.
        whole = next(found for found in self.runs(Kind.FREE) if self.covers(found, run))
        latest = max((slot.mark for slot in self.inside(whole)), key=lambda mark: mark.number)
        for slot in self.inside(whole):
            slot.mark = latest

    @staticmethod
    def covers(outer: Run, inner: Run) -> bool:
        return outer[0] <= inner[0] and inner[0] + inner[1] <= outer[0] + outer[1]

    # Requests.

    def allocate(self, pages: int, stream: int) -> int:
        self.settle()
        if pages > self.chunk:
            raise NoMemoryError
        self.unmap_zombies()
        first = self.find(pages, stream)
        if first is None:
            try:
                first = self.gather(pages, stream)[0]
            except NoMemoryError:
                for block in self.freed.values():
                    for mark in block.waits_for:
                        self.wait_on_host(mark)
                self.settle()
                first = self.find(pages, stream)
                if first is None:
                    first = self.gather(pages, stream)[0]
        self.numbers += 1
        for slot in self.inside((first, pages)):
            slot.kind, slot.stream, slot.block = Kind.LIVE, stream, self.numbers
        self.blocks[first] = Block(stream, pages)
        return first

    def find(self, pages: int, stream: int) -> int | None:
        fits = [run for run in self.runs(Kind.FREE) if run[1] >= pages]
        own = [run for run in fits if self.slots[run[0]].stream == stream]
        others = [run for run in fits if self.is_done(self.slots[run[0]].mark)]
        smallest = sorted(own or others, key=lambda run: (run[1], -run[0]))
        return smallest[0][0] if smallest else None

    def gather(self, pages: int, stream: int) -> Run:
        hole = self.hole_for(pages)
        free = self.runs(Kind.FREE)
        missing = max(0, pages - sum(count for _, count in free))
        parts = self.harvest(free, pages - missing, stream)
        for first, _ in parts:
            slot = self.slots[first]
            if slot.stream != stream and not self.is_done(slot.mark):
                self.calls["make_wait"] += 1
        behind = self.make_pages(missing)
        self.calls["map"] += pages
        self.calls["set_access"] += 1
        for first, count in parts:
            owner = self.slots[first].stream
            self.numbers += 1
            for slot in self.inside((first, count)):
                behind.append(slot.page)
                slot.kind, slot.block = Kind.ZOMBIE, self.numbers
            rest = dict(free)[first] - count
            if rest > 0:
                self.put_free((first + count, rest), owner, self.record_free(owner))
        for slot, page in zip(self.inside((hole, pages)), behind, strict=True):
            slot.page = page
            slot.kind, slot.stream, slot.mark = Kind.FREE, stream, Mark()
        return hole, pages

    def harvest(self, free: list[Run], wanted: int, stream: int) -> list[Run]:
        def turn(run: Run) -> tuple[bool, int]:
            slot = self.slots[run[0]]
            return slot.stream != stream, slot.mark.number

        parts = []
        for first, count in sorted(free, key=turn):
            if wanted > 0:
                parts.append((first, min(count, wanted)))
                wanted -= parts[-1][1]
        return parts

    def hole_for(self, pages: int) -> int:
        if not any(count >= pages for _, count in self.runs(Kind.HOLE)):
            self.calls["reserve_range"] += 1
            self.chunks.append(self.next_chunk)
            for at in range(self.chunk):
                self.slots[self.next_chunk + at] = Slot()
            self.next_chunk += self.chunk
        return min((count, first) for first, count in self.runs(Kind.HOLE) if count >= pages)[1]

    def make_pages(self, count: int) -> list[int]:
        room = self.capacity - len(self.made)
        self.calls["create_pages"] += min(count, room + 1)
        if count > room:
            self.calls["release_pages"] += room
            raise NoMemoryError
        pages = list(range(self.next_page, self.next_page + count))
        self.next_page += count
        self.made.update(pages)
        return pages

    def unmap_zombies(self) -> None:
        for run in self.runs(Kind.ZOMBIE):
            if self.is_done(self.slots[run[0]].mark):
                self.bury(run)

    def bury(self, run: Run) -> None:
        self.calls["unmap"] += 1
        for slot in self.inside(run):
            slot.kind = Kind.HOLE

    def use_on(self, first: int, stream: int) -> None:
        block = self.blocks[first]
        if stream != block.stream and stream not in block.used_on:
            block.used_on.append(stream)

    def free(self, first: int) -> None:
        block = self.blocks.pop(first)
        mark = self.record_free(block.stream)
        run = (first, block.pages)
        if not block.used_on:
            self.put_free(run, block.stream, mark)
            return
        block.waits_for = [self.record(stream) for stream in block.used_on]
        for slot in self.inside(run):
            slot.kind, slot.mark = Kind.PENDING, mark
        self.freed[first] = block

    def settle(self) -> None:
        for first, block in list(self.freed.items()):
            if all(self.is_done(mark) for mark in block.waits_for):
                del self.freed[first]
                mark = self.slots[first].mark
                self.put_free((first, block.pages), block.stream, mark)

    def give_back(self) -> None:
        for block in self.freed.values():
            for mark in block.waits_for:
                self.wait_on_host(mark)
        self.settle()
        for run in [*self.runs(Kind.ZOMBIE), *self.runs(Kind.FREE)]:
            self.wait_on_host(self.slots[run[0]].mark)
            if self.slots[run[0]].kind == Kind.FREE:
                self.calls["release_pages"] += run[1]
                self.made -= {slot.page for slot in self.inside(run)}
            self.bury(run)
        for first in [first for first, count in self.runs(Kind.HOLE) if count == self.chunk]:
            self.calls["release_range"] += 1
            self.chunks.remove(first)
