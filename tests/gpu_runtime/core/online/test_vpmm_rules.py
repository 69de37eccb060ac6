"""VPMM in the core against its rules page by page, over random programs."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from gpu_runtime._core import (
    CountingMemory,
    LedgerMemory,
    LedgerStreams,
    Vpmm,
    VpmmSettings,
    VpmmState,
)
from tests.gpu_runtime.core.online.vpmm_reference import Kind, NoMemoryError, Reference

pytestmark = pytest.mark.core

PAGE = 2 << 20
KINDS = {
    VpmmState.LIVE: Kind.LIVE,
    VpmmState.PENDING: Kind.PENDING,
    VpmmState.FREE: Kind.FREE,
    VpmmState.HOLE: Kind.HOLE,
    VpmmState.ZOMBIE: Kind.ZOMBIE,
}
COUNTED = (
    "reserve_range", "release_range", "create_pages", "release_pages", "map", "set_access",
    "unmap", "record_event", "make_wait",
)  # fmt: skip


class Program:
    """One random program, on both."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.streams = self.random.choice((1, 2, 3))
        pages = self.random.choice((0, 0, 5, 20))
        chunk = self.random.choice((24, 60))
        capacity = self.random.choice((30, 200))
        self.ledger = LedgerMemory(PAGE, capacity * PAGE, LedgerStreams.WHEN_TOLD)
        self.device = CountingMemory(self.ledger)
        settings = VpmmSettings(page_bytes=PAGE, pages=pages, chunk_bytes=chunk * PAGE)
        self.allocator = Vpmm(self.device, settings)
        self.first = self.allocator.regions()[0].address
        self.reference = Reference(pages=pages, chunk=chunk, capacity=capacity)
        self.live: list[int] = []
        self.seen: Counter[str] = Counter()

    def address(self, slot: int) -> int:
        return self.first + slot * PAGE

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.45:
            self.allocate(1 + int(self.random.expovariate(0.25)))
        elif choice < 0.8 and self.live:
            slot = self.live.pop(self.random.randrange(len(self.live)))
            assert self.allocator.free(self.address(slot))
            self.reference.free(slot)
        elif choice < 0.88 and self.live:
            slot, stream = self.random.choice(self.live), self.random.randrange(self.streams)
            assert self.allocator.use_on(self.address(slot), stream)
            self.reference.use_on(slot, stream)
        elif choice < 0.97:
            stream = self.random.randrange(self.streams)
            self.ledger.finish(stream)
            self.reference.finish(stream)
        elif choice < 0.99:
            self.allocator.settle()
            self.reference.settle()
        else:
            self.allocator.give_back()
            self.reference.give_back()

    def allocate(self, pages: int) -> None:
        stream = self.random.randrange(self.streams)
        requested = (pages - 1) * PAGE + self.random.randint(1, PAGE) if pages > 1 else PAGE
        try:
            slot = self.reference.allocate(pages, stream)
        except NoMemoryError:
            self.seen["no memory"] += 1
            with pytest.raises(MemoryError):
                self.allocator.allocate(requested, stream)
            return
        assert self.allocator.allocate(requested, stream) == self.address(slot)
        self.live.append(slot)

    def compare(self) -> None:
        self.allocator.check()
        found = [
            ((region.address - self.first) // PAGE, region.bytes // PAGE, KINDS[region.state])
            for region in self.allocator.regions()
        ]
        assert found == self.reference.layout()
        calls = self.device.calls
        assert {name: getattr(calls, name) for name in COUNTED} == {
            name: self.reference.calls[name] for name in COUNTED
        }
        self.seen.update({kind.value for _, _, kind in found})


def test_random_programs_take_the_same_course() -> None:
    seen: Counter[str] = Counter()
    for seed in range(100):
        program = Program(seed)
        for _ in range(120):
            program.step()
            program.compare()
        seen.update(program.seen)
        seen.update({name: getattr(program.device.calls, name) for name in COUNTED})
    assert {*(kind.value for kind in Kind), *COUNTED, "no memory"} <= {
        name for name, count in seen.items() if count > 10
    }
