"""The rules of virtual memory stitching, as slow and as plain as they can be written.

Nothing is kept in order: what is asked for is looked up among all blocks. Ranges of addresses and
chunks of memory are numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count


class NoMemoryError(Exception):
    """Not even after all that is idle was given back."""


@dataclass(frozen=True)
class Rules:
    chunk: int
    limit: int
    limits_blocks: bool
    most_stitched: int
    most_stitched_bytes: int
    capacity: int


@dataclass(eq=False)
class Primitive:
    made: int
    addresses: int
    stream: int
    chunks: list[int]
    is_active: bool = False


@dataclass(eq=False)
class Stitched:
    made: int
    addresses: int
    stream: int
    parts: list[Primitive]
    last_use: int


Block = Primitive | Stitched


@dataclass(eq=False)
class Request:
    block: Block
    bytes: int
    waits: set[int] = field(default_factory=set)


def parts_of(block: Block) -> list[Primitive]:
    return [block] if isinstance(block, Primitive) else block.parts


class StitchingAllocator:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.primitive: list[Primitive] = []
        self.stitched: list[Stitched] = []
        self.live: list[Request] = []
        self.pending: list[Request] = []
        self.states: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.clock = count(1)
        self.ranges = count(1)
        self.chunks = count(1)

    def bytes_of(self, block: Block) -> int:
        return self.rules.chunk * sum(len(part.chunks) for part in parts_of(block))

    def reserved(self) -> int:
        return sum(map(self.bytes_of, self.primitive))

    def active(self) -> int:
        return sum(self.bytes_of(block) for block in self.primitive if block.is_active)

    def inactive(self, stream: int) -> list[Primitive]:
        """Return primitive blocks, the smallest first, of one size the oldest."""
        found = [b for b in self.primitive if b.stream == stream and not b.is_active]
        return sorted(found, key=lambda block: (self.bytes_of(block), block.made))

    def allocate(self, bytes: int, stream: int) -> Request:
        self.settle()
        wanted = -(-bytes // self.rules.chunk) * self.rules.chunk
        try:
            block = self.best_fit(wanted, stream)
        except NoMemoryError:
            self.give_back()
            try:
                block = self.best_fit(wanted, stream)
            except NoMemoryError:
                self.states["out_of_memory"] += 1
                raise
        for part in parts_of(block):
            assert not part.is_active
            part.is_active = True
        if isinstance(block, Stitched):
            block.last_use = next(self.clock)
        self.live.append(Request(block, bytes))
        return self.live[-1]

    def free(self, request: Request, used_on: set[int]) -> None:
        self.live.remove(request)
        request.waits = used_on - {request.block.stream}
        self.pending.append(request)
        if not request.waits:
            self.come_back(request)

    def finish(self, stream: int) -> None:
        for request in self.pending:
            request.waits.discard(stream)

    def settle(self) -> None:
        for request in [request for request in self.pending if not request.waits]:
            self.come_back(request)

    def come_back(self, request: Request) -> None:
        self.pending.remove(request)
        for part in parts_of(request.block):
            part.is_active = False

    def give_back(self) -> None:
        for request in list(self.pending):
            self.come_back(request)
        handed_out = [request.block for request in self.live]
        for block in [block for block in self.stitched if block not in handed_out]:
            self.drop(block)
        for part in [part for part in self.primitive if not part.is_active]:
            self.primitive.remove(part)
            self.calls["unmap"] += 1
            self.calls["release_range"] += 1
            self.calls["release_pages"] += len(part.chunks)

    def best_fit(self, wanted: int, stream: int) -> Block:
        inactive = self.inactive(stream)
        exact: list[Block] = [block for block in inactive if self.bytes_of(block) == wanted]
        exact += [
            block
            for block in sorted(self.stitched, key=lambda block: block.made)
            if block.stream == stream
            and self.bytes_of(block) == wanted
            and not any(part.is_active for part in block.parts)
        ]
        if exact:
            self.states["exact"] += 1
            return exact[0]
        larger = [block for block in inactive if self.bytes_of(block) > wanted]
        if larger and self.rules.limits_blocks and self.bytes_of(larger[0]) < self.rules.limit:
            self.states["whole"] += 1
            return larger[0]
        if larger:
            self.states["single"] += 1
            return self.split(larger[0], wanted)
        if self.rules.limits_blocks:
            inactive = [block for block in inactive if self.bytes_of(block) >= self.rules.limit]
        elif wanted < self.rules.limit:
            inactive = []
        return self.gather(inactive, wanted, stream)

    def gather(self, candidates: list[Primitive], wanted: int, stream: int) -> Block:
        parts: list[Primitive] = []
        missing = wanted
        while missing > 0 and candidates:
            parts.append(candidates.pop())
            missing -= self.bytes_of(parts[-1])
        if missing > 0:
            made = self.alloc(missing, stream)
            self.states["insufficient"] += 1
            return self.stitch([*parts, made]) if parts else made
        if missing < 0:
            parts[-1] = self.split(parts[-1], self.bytes_of(parts[-1]) + missing)
        self.states["multiple"] += 1
        return self.stitch(parts)

    def alloc(self, bytes: int, stream: int) -> Primitive:
        there_is = (self.rules.capacity - self.reserved()) // self.rules.chunk
        wanted = bytes // self.rules.chunk
        if wanted > there_is:
            self.calls["create_pages"] += there_is + 1
            self.calls["release_pages"] += there_is
            raise NoMemoryError
        self.calls["create_pages"] += wanted
        return self.add_primitive([next(self.chunks) for _ in range(wanted)], stream)

    def add_primitive(self, chunks: list[int], stream: int) -> Primitive:
        made = Primitive(next(self.clock), self.new_range(len(chunks)), stream, chunks)
        self.primitive.append(made)
        return made

    def new_range(self, chunks: int) -> int:
        self.calls["reserve_range"] += 1
        self.calls["map"] += chunks
        self.calls["set_access"] += 1
        return next(self.ranges)

    def split(self, whole: Primitive, bytes: int) -> Primitive:
        at = bytes // self.rules.chunk
        first = self.add_primitive(whole.chunks[:at], whole.stream)
        second = self.add_primitive(whole.chunks[at:], whole.stream)
        self.primitive.remove(whole)
        for block in self.stitched:
            if whole in block.parts:
                at = block.parts.index(whole)
                block.parts[at : at + 1] = [first, second]
        self.add_stitched(whole.addresses, [first, second])
        return first

    def stitch(self, parts: list[Primitive]) -> Stitched:
        addresses = self.new_range(sum(len(part.chunks) for part in parts))
        return self.add_stitched(addresses, parts)

    def add_stitched(self, addresses: int, parts: list[Primitive]) -> Stitched:
        now = next(self.clock)
        made = Stitched(now, addresses, parts[0].stream, parts, now)
        for block in sorted(self.stitched, key=lambda block: block.last_use):
            addressed = sum(map(self.bytes_of, self.stitched)) + self.bytes_of(made)
            has_room = len(self.stitched) < self.rules.most_stitched
            if has_room and addressed <= self.rules.most_stitched_bytes:
                break
            if not any(part.is_active for part in block.parts):
                self.drop(block)
        self.stitched.append(made)
        return made

    def drop(self, block: Stitched) -> None:
        self.stitched.remove(block)
        self.calls["unmap"] += 1
        self.calls["release_range"] += 1
