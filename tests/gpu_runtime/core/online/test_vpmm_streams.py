"""VPMM with several streams, several chunks of addresses, and requests of less than a page."""

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

    def waits(self) -> int:
        return self.device.calls.make_wait


def test_a_region_of_another_stream_serves_without_a_wait_when_it_is_done() -> None:
    pool = Pool()
    address = pool.freed(3, 1)
    pool.ledger.finish(1)
    assert pool.allocate(2, 2) == address
    assert pool.waits() == 0
    assert pool.states() == [(VpmmState.LIVE, 2, 2), (VpmmState.FREE, 1, 1)]


def test_a_region_of_another_stream_moves_behind_a_wait_where_it_is_not_done() -> None:
    pool = Pool()
    address = pool.freed(3, 1)
    assert pool.allocate(2, 2) != address
    assert pool.waits() == 1
    assert pool.device.calls.create_pages == 3
    assert pool.states() == [
        (VpmmState.ZOMBIE, 2, 1),
        (VpmmState.FREE, 1, 1),
        (VpmmState.LIVE, 2, 2),
    ]


def test_the_rest_of_a_region_has_its_own_event() -> None:
    pool = Pool()
    pool.freed(3, 1)
    before = pool.device.calls.record_event
    pool.allocate(2, 2)
    assert pool.device.calls.record_event == before + 1


def test_the_stream_s_own_region_serves_first_also_where_it_is_larger() -> None:
    pool = Pool()
    one, two = pool.allocate(2, 1), pool.allocate(5, 2)
    for address in (one, two):
        pool.allocator.free(address)
    pool.ledger.finish(1)
    assert pool.allocate(2, 2) == two


def test_the_stream_s_own_pages_move_first_then_those_that_were_freed_first() -> None:
    pool = Pool()
    blocks = [pool.allocate(2, stream) for stream in (1, 2, 3, 2)]
    for which in (2, 0, 1):
        pool.allocator.free(blocks[which])
    pool.allocate(5, 2)
    assert pool.states() == [
        (VpmmState.ZOMBIE, 1, 1),
        (VpmmState.FREE, 1, 1),
        (VpmmState.ZOMBIE, 2, 2),
        (VpmmState.ZOMBIE, 2, 3),
        (VpmmState.LIVE, 2, 2),
        (VpmmState.LIVE, 5, 2),
    ]
    assert pool.waits() == 2


def test_a_zombie_stays_until_its_own_event_is_done() -> None:
    pool = Pool()
    pool.freed(3, 1)
    pool.allocate(4, 2)
    pool.ledger.finish(2)
    pool.allocate(1, 2)
    assert (VpmmState.ZOMBIE, 3, 1) in pool.states()
    pool.ledger.finish(1)
    pool.allocate(1, 2)
    assert pool.device.calls.unmap == 1
    assert (VpmmState.ZOMBIE, 3, 1) not in pool.states()


def test_a_block_that_another_stream_used_waits_for_it() -> None:
    pool = Pool()
    address = pool.allocate(2, 1)
    pool.allocator.use_on(address, 2)
    pool.allocator.free(address)
    assert pool.states() == [(VpmmState.PENDING, 2, 1)]
    assert pool.allocator.figures().active_bytes == 2 * PAGE
    pool.ledger.finish(2)
    assert pool.allocate(2, 1) == address


def test_pending_blocks_are_waited_for_where_no_page_is_left() -> None:
    pool = Pool(capacity=4)
    address = pool.allocate(4, 1)
    pool.allocator.use_on(address, 2)
    pool.allocator.free(address)
    assert pool.allocate(4, 1) == address


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


def test_peaks_begin_again_with_what_there_is() -> None:
    pool = Pool()
    pool.freed(5, 1)
    pool.allocator.free(pool.allocator.allocate(1000, 1))
    pool.allocate(2, 1)
    assert pool.allocator.figures().allocated_peak == 5 * PAGE
    pool.allocator.reset_peaks()
    assert pool.allocator.figures().allocated_peak == 2 * PAGE
    assert pool.allocator.figures().reserved_peak == 6 * PAGE


def test_give_back_returns_all_that_is_idle() -> None:
    pool = Pool(pages=6)
    pool.freed(2, 1)
    kept = pool.allocate(8, 2)
    pool.allocator.allocate(1000, 2)
    pool.allocator.give_back()
    assert pool.states() == [(VpmmState.LIVE, 8, 2)]
    assert pool.ledger.created_bytes == pool.allocator.figures().reserved_bytes == 9 * PAGE
    pool.allocator.free(kept)
    pool.allocator.give_back()
    assert pool.states() == []
    assert pool.device.calls.release_range == 1
    assert pool.ledger.live_events == 0


def test_pages_of_the_start_serve_stream_zero_and_others_at_once() -> None:
    for stream in (0, 1):
        pool = Pool(pages=4)
        assert pool.states() == [(VpmmState.FREE, 4, 0)]
        pool.allocate(4, stream)
        assert pool.device.calls.map == 4
        assert pool.waits() == 0


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


def test_pages_that_moved_are_listed_where_they_are_now() -> None:
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


def test_pages_that_could_not_be_opened_are_gone_before_their_addresses_are() -> None:
    memory = SimulatedMemory(PAGE, 100 * PAGE)
    allocator = Vpmm(memory, VpmmSettings(chunk_bytes=8 * PAGE))
    blocks = [allocator.allocate(pages * PAGE) for pages in (3, 2, 3)]
    allocator.free(blocks[0])
    allocator.free(blocks[2])
    # A range is reserved, it is asked whether the stream is captured, four pages are mapped; they
    # are neither opened nor taken back.
    memory.fail_after(6, 2)
    with pytest.raises(OSError, match=r"^unmap"):
        allocator.allocate(4 * PAGE)
    assert {allocator.allocate(3 * PAGE) for _ in range(2)} == {blocks[0], blocks[2]}
    allocator.give_back()
    allocator.check()
    assert (memory.mapped_bytes, memory.reserved_ranges) == (8 * PAGE, 1)


def test_pages_that_the_device_did_not_take_back_are_kept_until_it_does() -> None:
    memory = SimulatedMemory(PAGE, 100 * PAGE)
    allocator = Vpmm(memory, VpmmSettings(chunk_bytes=8 * PAGE))
    # Four pages are made, one is not mapped, none is taken back.
    memory.fail_after(5, 1 + 4)
    with pytest.raises(OSError, match=r"^map"):
        allocator.allocate(4 * PAGE)
    allocator.check()
    assert allocator.figures().free_bytes == memory.created_bytes == 4 * PAGE
    allocator.give_back()
    assert memory.created_bytes == 0


def test_an_event_that_was_refused_at_first_is_the_latest() -> None:
    memory = SimulatedMemory(PAGE, 100 * PAGE)
    allocator = Vpmm(memory, VpmmSettings(chunk_bytes=16 * PAGE))
    late, between, early = (allocator.allocate(PAGE) for _ in range(3))
    memory.fail_after(0, 1)
    allocator.free(late)
    allocator.free(early)
    memory.submit(0, between, 8)
    # Recorded now, and not done: that of `early` is.
    allocator.allocate(2 * PAGE)
    assert allocator.allocate(PAGE) == early
    allocator.check()
    states = {region.address: region.state for region in allocator.regions()}
    assert states[late] == VpmmState.ZOMBIE


class Device:
    """A pool over memory whose streams can be captured and destroyed, three pages of it freed."""

    def __init__(self, stream: int, *, captured: int | None = None) -> None:
        self.memory = SimulatedMemory(PAGE, 10 * PAGE)
        self.device = CountingMemory(self.memory)
        self.allocator = Vpmm(self.device, VpmmSettings(chunk_bytes=32 * PAGE))
        self.address = self.allocator.allocate(3 * PAGE, stream)
        self.memory.submit(stream, self.address, 8)
        if captured is not None:
            self.memory.set_captured(captured, True)

    def free(self) -> None:
        assert self.allocator.free(self.address)

    def made(self) -> int:
        return self.memory.created_bytes // PAGE


def test_bytes_freed_in_a_capture_stay_with_their_stream_until_its_end() -> None:
    pool = Device(1, captured=1)
    pool.free()
    pool.allocator.allocate(4 * PAGE, 2)
    assert pool.made() == 7
    pool.allocator.give_back()
    assert pool.made() == 7
    pool.allocator.allocate(PAGE, 2)
    assert pool.made() == 8
    assert pool.allocator.allocate(3 * PAGE, 1) == pool.address
    pool.free()
    pool.memory.set_captured(1, False)
    pool.allocator.allocate(4 * PAGE, 2)
    assert pool.made() == 9
    assert pool.device.calls.make_wait == 1
    assert pool.memory.captured_work == 0
    pool.allocator.check()


def test_a_stream_that_is_captured_waits_for_nothing() -> None:
    pool = Device(1, captured=2)
    pool.free()
    pool.allocator.allocate(2 * PAGE, 2)
    assert pool.made() == 5
    pool.memory.finish(1)
    pool.allocator.allocate(4 * PAGE, 2)
    assert pool.made() == 6
    assert pool.device.calls.make_wait == 0
    assert pool.memory.captured_work == 0
    pool.allocator.check()


def test_bytes_of_a_destroyed_stream_serve_after_a_device_wait() -> None:
    pool = Device(1)
    pool.memory.destroy_stream(1)
    pool.free()
    pool.allocator.allocate(7 * PAGE, 2)
    assert (pool.made(), pool.device.calls.synchronize) == (10, 0)
    pool.allocator.allocate(3 * PAGE, 2)
    assert (pool.made(), pool.device.calls.synchronize) == (10, 1)
    pool.allocator.check()
