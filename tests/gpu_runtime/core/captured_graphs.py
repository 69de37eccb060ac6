"""Captures of programs into pools, and their replays over the bytes of a simulated device."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from random import Random

from gpu_runtime._core import CountingMemory, PlannedAllocator, SimulatedMemory
from tests.gpu_runtime.core.stamped_blocks import Block, bytes_at, pattern

CAPTURED = 7
# The pool of work that runs between replays.
BETWEEN = 1000


@dataclass
class Graph:
    """The requests and frees of one capture, and the blocks that outlive it.

    Each entry of `work` is on a stream, and writes a block or reads it for the last time.
    """

    pool: int
    work: list[tuple[int, Block, bool]] = field(default_factory=list)
    pages: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)

    def replay(self, random: Random) -> None:
        """Do the work, each stream at a pace of its own, and find each byte in place."""
        streams = {stream for stream, _, _ in self.work}
        queues = [deque(step for step in self.work if step[0] == stream) for stream in streams]
        written: set[Block] = set()
        while queues := [queue for queue in queues if queue]:
            ready = [queue for queue in queues if queue[0][2] or queue[0][1] in written]
            _, block, is_write = random.choice(ready).popleft()
            if is_write:
                bytes_at(block)[:] = pattern(block)
                written.add(block)
            else:
                assert (bytes_at(block) == pattern(block)).all(), f"{block} was written to"


class Captures:
    """Pools of graphs that are exclusive, over a simulated device."""

    def __init__(self, page: int = 4096, capacity: int = 1 << 30, **options: bool) -> None:
        self.page = page
        self.memory = SimulatedMemory(page, capacity)
        self.counted = CountingMemory(self.memory)
        self.allocator = PlannedAllocator(self.counted, **options)
        self.allocator.set_exclusive_graphs(True)
        self.graphs: list[Graph] = []
        self.live: dict[int, Block] = {}
        self._stamps = count(1)

    def begin(self, pool: int) -> Graph:
        """Begin a capture."""
        assert self.allocator.begin_pool(pool)
        for stream in range(CAPTURED, CAPTURED + 3):
            self.memory.set_captured(stream, True)
        self.graphs.append(Graph(pool))
        self._forbidden = self.forbidden_calls()
        return self.graphs[-1]

    def begin_eager(self) -> Graph:
        """Begin work between replays, which writes its blocks at once."""
        self.allocator.lend(BETWEEN)
        assert self.allocator.begin_pool(BETWEEN)
        self.graphs.append(Graph(BETWEEN))
        return self.graphs[-1]

    def end_eager(self) -> None:
        """End this work; what lives on is to keep its bytes."""
        self.allocator.end_capture(BETWEEN)
        self.allocator.check()
        self._keep(self.graphs[-1])

    def request(self, size: int, stream: int = CAPTURED) -> Block:
        """Request a block, which the capture writes."""
        graph = self.graphs[-1]
        address = self.allocator.allocate_in_pool(graph.pool, size, stream)
        assert address, "the pool is served"
        block = Block(address, size, stream, next(self._stamps))
        assert not any(block.overlaps(other) for other in self.live.values())
        self.live[address] = block
        graph.work.append((stream, block, True))
        graph.pages |= self.pages_of(block)
        if graph.pool == BETWEEN:
            bytes_at(block)[:] = pattern(block)
        return block

    def free(self, block: Block, user: int | None = None) -> None:
        """Free a block after its last use, which may be on another stream."""
        if user is not None:
            self.allocator.use_on(block.address, user)
        self.graphs[-1].work.append((user or block.stream, block, False))
        del self.live[block.address]
        assert self.allocator.free(block.address)

    def end(self) -> None:
        """End the capture."""
        graph = self.graphs[-1]
        for stream in range(CAPTURED, CAPTURED + 3):
            self.memory.set_captured(stream, False)
        assert self.forbidden_calls() == self._forbidden
        self.allocator.check()
        self.allocator.end_capture(graph.pool)
        self.allocator.check()
        self._keep(graph)

    def _keep(self, graph: Graph) -> None:
        blocks = {block for _, block, _ in graph.work if self.live.get(block.address) == block}
        graph.kept = set().union(*map(self.pages_of, blocks))

    def forbidden_calls(self) -> int:
        """Return the number of calls that would end a capture."""
        calls = self.counted.calls
        return int(calls.host_waits + calls.unmap + calls.record_event + calls.make_wait)

    def pages_of(self, block: Block) -> set[int]:
        """Return the numbers of the pages on which a block lies."""
        return set(range(block.address // self.page, (block.end - 1) // self.page + 1))

    def check(self, graph: Graph) -> None:
        """Find the last stamps in the blocks that outlive a capture."""
        for _, block, is_write in graph.work:
            if is_write and self.live.get(block.address) == block:
                assert (bytes_at(block) == pattern(block)).all(), f"{block} was written to"

    @property
    def reserved(self) -> int:
        """Bytes of physical memory."""
        figures = self.allocator.figures()
        shared, own = figures.graphs.scratch_bytes, figures.graphs.own_bytes
        assert figures.reserved_bytes == self.memory.created_bytes == shared + own
        return int(figures.reserved_bytes)

    def most(self) -> int:
        """Return the bound: scratch of the largest graph, and what outlives each graph."""
        scratch = max(len(graph.pages - graph.kept) for graph in self.graphs)
        return self.page * (scratch + len(set().union(*(graph.kept for graph in self.graphs))))
