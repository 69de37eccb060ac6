"""Random programs on GMLake and on its rules as plain as they can be: they never differ."""

from __future__ import annotations

from random import Random

import pytest

from gpu_runtime._core import CountingMemory, Gmlake, GmlakeRules, LedgerMemory, LedgerStreams
from tests.gpu_runtime.core.online.stitching_rules import (
    NoMemoryError,
    Request,
    Rules,
    StitchingAllocator,
)
from tests.slow import in_parts

pytestmark = pytest.mark.core

CHUNK = 2 << 20
STATES = ("exact", "single", "whole", "multiple", "insufficient", "out_of_memory")
CALLS = (
    *("reserve_range", "create_pages", "map", "set_access"),
    *("unmap", "release_range", "release_pages"),
)


def some_rules(random: Random) -> Rules:
    is_scarce = random.random() < 0.4
    return Rules(
        chunk=CHUNK,
        limit=random.choice([0, 2, 3, 6]) * CHUNK,
        limits_blocks=random.random() < 0.5,
        most_stitched=random.choice([1, 4, 1000]),
        most_stitched_bytes=random.choice([30, 10**6]) * CHUNK,
        capacity=(60 if is_scarce else 10**6) * CHUNK,
    )


class Both:
    """An allocator over a ledger, and the plain one."""

    def __init__(self, rules: Rules) -> None:
        self.ledger = LedgerMemory(CHUNK, rules.capacity, LedgerStreams.WHEN_TOLD)
        self.memory = CountingMemory(self.ledger)
        self.fast = Gmlake(
            self.memory,
            GmlakeRules(
                chunk_bytes=rules.chunk,
                fragmentation_limit_bytes=rules.limit,
                limits_blocks=rules.limits_blocks,
                most_stitched=rules.most_stitched,
                most_stitched_bytes=rules.most_stitched_bytes,
            ),
        )
        self.plain = StitchingAllocator(rules)
        self.live: list[tuple[int, Request, set[int]]] = []
        self.address_of: dict[int, int] = {}

    def allocate(self, bytes: int, stream: int) -> None:
        try:
            request = self.plain.allocate(bytes, stream)
        except NoMemoryError:
            with pytest.raises(MemoryError):
                self.fast.allocate(bytes, stream)
            return
        address = self.fast.allocate(bytes, stream)
        assert self.address_of.setdefault(request.block.addresses, address) == address
        self.live.append((address, request, set()))

    def use_on(self, index: int, stream: int) -> None:
        address, _, used_on = self.live[index]
        assert self.fast.use_on(address, stream)
        used_on.add(stream)

    def free(self, index: int) -> None:
        address, request, used_on = self.live.pop(index)
        self.plain.free(request, used_on)
        assert self.fast.free(address)

    def finish(self, stream: int) -> None:
        self.plain.finish(stream)
        self.ledger.finish(stream)

    def give_back(self) -> None:
        self.plain.give_back()
        self.fast.give_back()

    def compare(self) -> None:
        self.fast.check()
        figures = self.fast.figures()
        plain = self.plain
        assert figures.reserved_bytes == plain.reserved() == self.ledger.created_bytes
        assert figures.active_bytes == plain.active()
        assert figures.requested_bytes == sum(request.bytes for request in plain.live)
        assert figures.allocated_bytes == sum(plain.bytes_of(r.block) for r in plain.live)
        assert self.fast.primitive_count == len(plain.primitive)
        assert self.fast.stitched_count == len(plain.stitched)
        inactive = sum(not block.is_active for block in plain.primitive)
        assert figures.segments == len(plain.live) + len(plain.pending) + inactive
        states = self.fast.states()
        assert all(getattr(states, state) == plain.states[state] for state in STATES)
        assert len(set(self.address_of.values())) == len(self.address_of)


def run(seed: int) -> set[str]:
    """Return the states that came up."""
    random = Random(seed)
    both = Both(some_rules(random))
    streams = random.randint(1, 3)
    sizes = [random.randint(CHUNK, 16 * CHUNK) for _ in range(6)]
    for turn in range(300):
        kind = random.random()
        if kind < 0.5 and len(both.live) < 20:
            bytes = random.choice(sizes) if turn % 4 else random.randint(CHUNK, 30 * CHUNK)
            both.allocate(bytes, random.randrange(streams))
        elif kind < 0.6 and both.live:
            both.use_on(random.randrange(len(both.live)), random.randrange(streams))
        elif kind < 0.93 and both.live:
            both.free(random.randrange(len(both.live)))
        elif kind < 0.99:
            both.finish(random.randrange(streams))
        else:
            both.give_back()
        both.plain.settle()
        both.fast.settle()
        both.compare()
    while both.live:
        both.free(0)
    both.give_back()
    both.compare()
    assert both.ledger.created_bytes == both.ledger.live_events == 0
    calls = both.memory.calls
    assert all(getattr(calls, call) == both.plain.calls[call] for call in CALLS)
    return {state for state, times in both.plain.states.items() if times}


@in_parts("seeds", range(400), first=60)
def test_gmlake_is_its_rules(seeds: range) -> None:
    seen: set[str] = set()
    for seed in seeds:
        seen |= run(seed)
    assert seen == set(STATES)
