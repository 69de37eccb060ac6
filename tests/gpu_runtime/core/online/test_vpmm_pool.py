"""VPMM with requests of less than a page, several chunks of addresses, and settings."""

from __future__ import annotations

import pytest

from gpu_runtime._core import (
    CountingMemory,
    LedgerMemory,
    LedgerStreams,
    OnlineState,
    SimulatedMemory,
    Vpmm,
    VpmmSettings,
    VpmmState,
)

pytestmark = pytest.mark.core

PAGE = 2 << 20


class Pool:
    """A pool over a ledger on which streams are done when told."""

    def __init__(self, *, capacity: int = 1000, pages: int = 0, chunk: int = 64) -> None:
        self.ledger = LedgerMemory(PAGE, capacity * PAGE, LedgerStreams.WHEN_TOLD)
        self.device = CountingMemory(self.ledger)
        settings = VpmmSettings(page_bytes=PAGE, pages=pages, chunk_bytes=chunk * PAGE)
        self.allocator = Vpmm(self.device, settings)

    def allocate(self, pages: int, stream: int) -> int:
        address = self.allocator.allocate(pages * PAGE, stream)
        self.allocator.check()
        return address

    def freed(self, pages: int, stream: int) -> int:
        address = self.allocate(pages, stream)
        assert self.allocator.free(address)
        return address

    def states(self) -> list[tuple[VpmmState, int, int]]:
        self.allocator.check()
        return [
            (region.state, region.bytes // PAGE, region.stream)
            for region in self.allocator.regions()
            if region.state != VpmmState.HOLE
        ]


def test_idle_memory_of_small_requests_makes_room_for_pages_and_pages_for_it() -> None:
    pool = Pool(capacity=10)
    pool.allocator.free(pool.allocator.allocate(PAGE - 1, 1))
    assert pool.allocator.figures().reserved_bytes == 10 * PAGE
    pool.freed(10, 1)
    assert pool.device.calls.create_pages == 1 + 10
    pool.allocator.allocate(1000, 1)
    assert pool.allocator.figures().reserved_bytes == PAGE
    assert pool.states() == []


def test_another_chunk_is_reserved_where_no_hole_is_large_enough() -> None:
    pool = Pool(chunk=8)
    one, two = pool.allocate(5, 1), pool.allocate(5, 1)
    pool.allocate(3, 1)
    assert pool.device.calls.reserve_range == 2
    # The ledger's chunks lie side by side. No region is in both.
    pool.allocator.free(two)
    pool.allocator.free(one)
    segments = pool.allocator.segments()
    assert [segment.bytes for segment in segments] == [8 * PAGE, 8 * PAGE]
    assert segments[0].address + 8 * PAGE == segments[1].address
    pool.allocate(8, 1)
    assert pool.device.calls.reserve_range == 3
    with pytest.raises(MemoryError, match="more than a chunk of addresses has"):
        pool.allocate(9, 1)


def test_requests_of_less_than_a_page_are_served_elsewhere() -> None:
    pool = Pool()
    small, large = pool.allocator.allocate(PAGE - 1, 1), pool.allocator.allocate(PAGE, 1)
    calls = pool.device.calls
    assert (calls.allocate_plain, calls.create_pages) == (1, 1)
    figures = pool.allocator.figures()
    assert figures.requested_bytes == 2 * PAGE - 1
    assert figures.reserved_bytes == figures.active_bytes + figures.free_bytes == 11 * PAGE
    assert pool.allocator.use_on(small, 2)
    assert pool.allocator.free(small)
    assert pool.allocator.free(large)
    assert not pool.allocator.free(small)
    assert not pool.allocator.free(large)
    pool.ledger.finish(2)
    pool.allocator.settle()
    pool.allocator.check()
    assert pool.allocator.figures().active_bytes == 0
    assert pool.allocator.figures().reserved_peak == 11 * PAGE
    assert [segment.bytes // PAGE for segment in pool.allocator.segments()] == [64, 10]


def test_a_page_larger_than_any_request_switches_the_pool_off() -> None:
    ledger = LedgerMemory(PAGE, 1 << 40)
    device = CountingMemory(ledger)
    allocator = Vpmm(device, VpmmSettings(page_bytes=32 << 30))
    allocator.allocate(1 << 30)
    assert device.calls.create_pages == 0
    assert allocator.figures().reserved_bytes == 1 << 30


def test_reset_peaks_begin_with_live_bytes() -> None:
    pool = Pool()
    pool.freed(5, 1)
    pool.allocator.free(pool.allocator.allocate(1000, 1))
    pool.allocate(2, 1)
    assert pool.allocator.figures().allocated_peak == 5 * PAGE
    pool.allocator.reset_peaks()
    assert pool.allocator.figures().allocated_peak == 2 * PAGE
    assert pool.allocator.figures().reserved_peak == 6 * PAGE


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("page_bytes", VpmmSettings(page_bytes=0)),
        ("page_bytes", VpmmSettings(page_bytes=PAGE + 4096)),
        ("chunk_bytes", VpmmSettings(chunk_bytes=0)),
        ("chunk_bytes", VpmmSettings(page_bytes=3 * PAGE, chunk_bytes=8 * PAGE)),
        ("pages", VpmmSettings(pages=5, chunk_bytes=4 * PAGE)),
    ],
)
def test_settings_that_break_a_rule_are_refused(field: str, settings: VpmmSettings) -> None:
    with pytest.raises(ValueError, match=f"^field {field}: .*, found "):
        Vpmm(LedgerMemory(PAGE, 1 << 40), settings)


def test_a_start_without_enough_memory_leaves_nothing() -> None:
    memory = SimulatedMemory(PAGE, 4 * PAGE)
    with pytest.raises(MemoryError):
        Vpmm(memory, VpmmSettings(pages=5, chunk_bytes=16 * PAGE))
    assert (memory.created_bytes, memory.mapped_bytes, memory.reserved_ranges) == (0, 0, 0)


def test_moved_pages_are_listed_at_new_addresses() -> None:
    pool = Pool()
    pool.freed(3, 1)
    pool.allocate(4, 1)
    (segment,) = pool.allocator.segments()
    assert [(block.state, block.bytes // PAGE) for block in segment.blocks] == [
        (OnlineState.UNMAPPED, 3),
        (OnlineState.ALLOCATED, 4),
        (OnlineState.UNMAPPED, 57),
    ]
    assert pool.allocator.figures().segments == 1
