"""PyTorch's documented rules, slow and obvious: nothing is split, merged or kept in order.

Kept is what is in use. What is free follows: the stretches between, as long as they can be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

MIB = 1 << 20
SMALL, OWN_SEGMENT = MIB, 10 * MIB
SMALL_PAGE = SEGMENT_ROUNDING = 2 * MIB
UNIT = 512


# A pool, a stream, and whether blocks are small.
Place = tuple[int, int, bool]


class OutOfMemoryError(Exception):
    pass


@dataclass(frozen=True)
class Rules:
    """The settings, in bytes."""

    max_split: int = 1 << 62
    rounding: int = 20 * MIB
    divisions: int = 0
    threshold: float = 0.0
    fraction: float = 1.0
    large_segment: int = 20 * MIB
    page: int = 0

    def rounded(self, requested: int) -> int:
        if self.divisions > 1 and requested > UNIT * self.divisions:
            power = 1
            while 2 * power <= requested:
                power *= 2
            steps = [power + step * power // self.divisions for step in range(self.divisions + 1)]
            return next(step for step in steps if step >= requested)
        return max(UNIT, -(-requested // UNIT) * UNIT)

    def segment_for(self, size: int) -> int:
        if size <= SMALL:
            return SMALL_PAGE
        if size < OWN_SEGMENT:
            return self.large_segment
        return -(-size // SEGMENT_ROUNDING) * SEGMENT_ROUNDING


@dataclass
class Used:
    """A block that is live, or waits for events."""

    begin: int
    end: int
    streams: list[int] = field(default_factory=list)
    # Since it was freed: by stream, how many events there have to be done.
    events: dict[int, int] | None = None


@dataclass
class Segment:
    begin: int
    end: int
    # The pool, the stream, and whether its blocks are small.
    place: tuple[int, int, bool]
    # Of an expandable one, the pages with memory; all have it where there is no page size.
    page: int = 0
    mapped: set[int] = field(default_factory=set)
    used: list[Used] = field(default_factory=list)
    idle_since: int = 0

    @property
    def is_small(self) -> bool:
        return self.place[2]

    def gaps(self) -> list[tuple[int, int]]:
        """Return the stretches in which no block is."""
        ends = [self.begin, *(each.end for each in sorted(self.used, key=lambda u: u.begin))]
        begins = [*(each.begin for each in sorted(self.used, key=lambda u: u.begin)), self.end]
        return [(one, other) for one, other in zip(ends, begins, strict=True) if one < other]

    def parts(self, begin: int, end: int) -> list[tuple[int, int, bool]]:
        """Return the stretches of a gap, and whether there is memory."""
        if not self.page:
            return [(begin, end, True)]
        edges = {begin, end}
        edges |= {
            edge
            for page in range((end - self.begin) // self.page + 1)
            if (page in self.mapped) != (page - 1 in self.mapped)
            and begin < (edge := self.begin + page * self.page) < end
        }
        return [
            (one, other, (one - self.begin) // self.page in self.mapped)
            for one, other in pairwise(sorted(edges))
        ]

    def free(self) -> list[tuple[int, int, int]]:
        """Return free stretches: begin, bytes, and the bytes that each could grow to."""
        found = []
        for gap in self.gaps():
            parts = self.parts(*gap)
            for index, (begin, end, has_memory) in enumerate(parts):
                if has_memory:
                    behind = parts[index + 1] if index + 1 < len(parts) else (0, 0, False)
                    found.append((begin, end - begin, end - begin + behind[1] - behind[0]))
        return found


class Reference:
    """An allocator; addresses are dictated, as those of the ledger that it is compared with."""

    def __init__(
        self, rules: Rules, capacity: int, addresses: list[int], *, is_expandable: bool
    ) -> None:
        self.rules = rules
        self.capacity = capacity
        self.addresses = list(addresses)
        self.is_expandable = is_expandable
        self.segments: list[Segment] = []
        self.live: dict[int, tuple[Segment, Used]] = {}
        self.pool = 0
        self.ended: set[int] = set()
        self.searches = {True: 0, False: 0}
        self.recorded: dict[int, int] = {}
        self.done: dict[int, int] = {}
        self.obtained: list[tuple[int, int]] = []

    def reserved(self) -> int:
        return sum(
            len(each.mapped) * each.page if each.page else each.end - each.begin
            for each in self.segments
        )

    def allocate(self, requested: int, stream: int) -> int:
        self.settle()
        size = self.rules.rounded(requested)
        is_small = size <= SMALL
        place = self.pool, stream, is_small
        # Garbage is collected in the common pool only.
        self.searches[is_small] += self.pool == 0
        found = self.find(size, place) or self.obtain_hard(size, place)
        segment, begin, room = found
        rest = room - size
        if self.is_expandable or is_small:
            is_split = rest >= UNIT
        else:
            is_split = size < self.rules.max_split and rest > SMALL
        used = Used(begin, begin + (size if is_split else room))
        segment.used.append(used)
        self.live[begin] = segment, used
        return begin

    def find(self, size: int, place: Place) -> tuple[Segment, int, int] | None:
        found = sorted(
            (room, begin, grown, number)
            for number, segment in enumerate(self.segments)
            if segment.place == place
            for begin, room, grown in segment.free()
            if room >= size
        )
        if not found:
            return None
        best = found[0]
        for other in found[1:]:
            if not self.is_expandable or other[2] >= best[2]:
                break
            best = other
        room = best[0]
        if size < self.rules.max_split <= room:
            return None
        if size >= self.rules.max_split and room >= size + self.rules.rounding:
            return None
        return self.segments[best[3]], best[1], room

    def obtain_hard(self, size: int, place: Place) -> tuple[Segment, int, int]:
        if not self.is_expandable:
            self.collect_garbage()
        try:
            return self.obtain(size, place)
        except OutOfMemoryError:
            pass
        if not self.is_expandable and self.make_room(size, place):
            try:
                return self.obtain(size, place)
            except OutOfMemoryError:
                pass
        if self.pool == 0:
            self.give_back()
        return self.obtain(size, place)

    def obtain(self, size: int, place: Place) -> tuple[Segment, int, int]:
        wanted = self.rules.segment_for(size)
        if self.reserved() + wanted > self.rules.fraction * self.capacity:
            raise OutOfMemoryError
        if self.is_expandable:
            return self.expand(size, place)
        if self.reserved() + wanted > self.capacity:
            raise OutOfMemoryError
        begin = self.addresses.pop(0)
        segment = Segment(begin, begin + wanted, place)
        segment.idle_since = self.searches[segment.is_small]
        self.segments.append(segment)
        self.obtained.append((begin, wanted))
        return segment, begin, wanted

    def expand(self, size: int, place: Place) -> tuple[Segment, int, int]:
        segment, begin = self.place_to_expand(size, place)
        while True:
            here = next(
                part
                for gap in segment.gaps()
                for part in segment.parts(*gap)
                if part[0] <= begin < part[1]
            )
            if here[2] and here[1] - begin >= size:
                return segment, begin, here[1] - begin
            hole = here[1] if here[2] else begin
            end = next(
                part[1] for gap in segment.gaps() for part in segment.parts(*gap) if part[0] == hole
            )
            self.map_pages(segment, hole, min(end, begin + size))

    def map_pages(self, segment: Segment, begin: int, end: int) -> None:
        first = (begin - segment.begin) // segment.page
        pages = range(first, first - (-(end - begin) // segment.page))
        if self.reserved() + len(pages) * segment.page > self.capacity:
            raise OutOfMemoryError
        segment.mapped.update(pages)
        self.obtained.append((begin, len(pages) * segment.page))

    def place_to_expand(self, size: int, place: Place) -> tuple[Segment, int]:
        for segment in sorted(self.segments, key=lambda each: each.begin):
            if segment.place != place:
                continue
            for gap in segment.gaps():
                parts = segment.parts(*gap)
                for index, (begin, _, has_memory) in enumerate(parts):
                    if has_memory:
                        continue
                    first = parts[index - 1][0] if index > 0 else begin
                    if gap[1] - first >= size:
                        return segment, first
        page = SMALL_PAGE if place[2] else self.rules.page or self.rules.large_segment
        room = max(self.capacity + self.capacity // 8, size)
        begin = self.addresses.pop(0)
        end = begin - (-room // page) * page
        segment = Segment(begin, end, place, page)
        self.segments.append(segment)
        return segment, begin

    def make_room(self, size: int, place: Place) -> bool:
        if self.rules.max_split == Rules.max_split:
            return False
        wanted = max(size, self.rules.max_split)
        large = sorted(
            (room, begin)
            for segment in self.segments
            if segment.place == place
            for begin, room, _ in segment.free()
            if room >= self.rules.max_split
        )
        enough = [each for each in large if each[0] >= wanted]
        released = 0
        for room, begin in enough[:1] or reversed(large):
            if released >= wanted:
                break
            released += room
            self.release([each for each in self.segments if each.begin == begin])
        return released >= wanted

    def collect_garbage(self) -> None:
        limit = int(self.rules.threshold * int(self.rules.fraction * self.capacity))
        wanted = self.reserved() - limit
        if not self.rules.threshold:
            return
        while wanted > 0:
            large = [each for each in self.segments if not each.place[0] and not each.is_small]
            idle = [each for each in large if not each.used]
            ages = [self.searches[False] - each.idle_since for each in idle]
            old = [
                each for each, age in zip(idle, ages, strict=True) if age >= sum(ages) / len(ages)
            ]
            if not old:
                break
            wanted -= sum(each.end - each.begin for each in old)
            self.release(old)

    def release(self, segments: list[Segment]) -> None:
        for stream in self.recorded:
            self.finish(stream)  # a driver waits for all before it releases memory
        self.segments = [each for each in self.segments if each not in segments]

    def use_on(self, address: int, stream: int) -> None:
        segment, used = self.live[address]
        if stream != segment.place[1] and stream not in used.streams:
            used.streams.append(stream)

    def free(self, address: int) -> None:
        segment, used = self.live.pop(address)
        used.events = {}
        for stream in used.streams:
            self.recorded[stream] = self.recorded.get(stream, 0) + 1
            used.events[stream] = self.recorded[stream]
        if not used.events:
            self.drop(segment, used)

    def drop(self, segment: Segment, used: Used) -> None:
        segment.used.remove(used)
        if not segment.used:
            segment.idle_since = self.searches[segment.is_small]

    def finish(self, stream: int) -> None:
        self.done[stream] = self.recorded.get(stream, 0)

    def settle(self) -> None:
        for segment in self.segments:
            for used in list(segment.used):
                if used.events is not None and all(
                    self.done.get(stream, 0) >= event for stream, event in used.events.items()
                ):
                    self.drop(segment, used)

    def give_back(self) -> None:
        for stream in [*self.recorded]:
            # Every block that waits is waited for.
            waiting = [
                used.events[stream]
                for segment in self.segments
                for used in segment.used
                if used.events and stream in used.events
            ]
            self.done[stream] = max([self.done.get(stream, 0), *waiting])
        self.settle()
        self.release_idle({0, *self.ended})

    def enter_pool(self, pool: int) -> None:
        self.pool = pool
        self.ended.discard(pool)

    def end_pool(self, pool: int) -> None:
        self.settle()
        self.ended.add(pool)
        self.release_idle({pool})

    def release_idle(self, pools: set[int]) -> None:
        for segment in self.segments:
            if segment.page and segment.place[0] in pools:
                for begin, room, _ in segment.free():
                    first = -(-(begin - segment.begin) // segment.page)
                    last = (begin + room - segment.begin) // segment.page
                    segment.mapped -= set(range(first, last))
                    if first < last:
                        self.finish(segment.place[1])  # the host waits before pages go
        idle = [each for each in self.segments if not (each.used or each.mapped)]
        gone = [each for each in idle if each.page or each.place[0] in pools]
        if self.is_expandable:
            self.segments = [each for each in self.segments if each not in gone]
        elif gone:
            self.release(gone)
