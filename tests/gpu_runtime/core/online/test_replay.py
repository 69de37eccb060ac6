"""Recorded runs that are made again to an online allocator."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_runtime._core import (
    CountingMemory,
    DeviceMemory,
    LedgerMemory,
    LedgerStreams,
    OnlineAllocator,
    OnlineReplay,
    OnlineState,
    PlannedAllocator,
    PlannedReplay,
    PytorchCaching,
    PytorchExpandable,
    RecordedAction,
    ReplayOutcome,
    RequestLog,
    SegmentLog,
    SimulatedMemory,
)
from instances.traces.event_log import EVENT_KINDS
from tests.gpu_runtime.core.online.recorded_program import RecordedProgram, Row
from tests.interrupts import heard_within

pytestmark = pytest.mark.core

MIB = 1 << 20
PLENTY = 8 << 30
ALLOC, REQUESTED, COMPLETED, ALLOCATED, FREED, MAPPED, UNMAPPED = (
    int(action) for action in RecordedAction
)
MARK = 255


def log_of(rows: list[Row]) -> RequestLog:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    return RequestLog(
        np.array(columns[0], dtype=np.uint8),
        np.array(columns[1], dtype=np.uint64),
        np.array(columns[2], dtype=np.int64),
        np.array(columns[3], dtype=np.int64),
    )


def replay(
    log: RequestLog,
    allocator: OnlineAllocator,
    memory: DeviceMemory,
    segments: SegmentLog | None = None,
    *,
    has_series: bool = False,
) -> ReplayOutcome:
    """Make all rows."""
    made = OnlineReplay(log, allocator, memory, segments, has_series)
    made.run_to(log.row_count)
    return made.end()


class Replayed:
    """A replay over a ledger, and what became of it."""

    def __init__(
        self, rows: list[Row], *, capacity: int = 1 << 30, is_expandable: bool = False
    ) -> None:
        self.ledger = LedgerMemory(2 * MIB, capacity, LedgerStreams.WHEN_TOLD)
        self.segments = SegmentLog(self.ledger)
        self.counted = CountingMemory(self.segments)
        kind = PytorchExpandable if is_expandable else PytorchCaching
        self.allocator: OnlineAllocator = kind(self.counted)
        self.outcome: ReplayOutcome = replay(
            log_of(rows), self.allocator, self.ledger, self.segments, has_series=True
        )
        self.allocator.check()


def test_each_request_gets_an_address_and_each_row_its_sums() -> None:
    made = Replayed(
        [
            (ALLOC, 100, 700, 0),
            (MARK, 100, 700, 0),
            (ALLOC, 200, 3 * MIB, 0),
            (REQUESTED, 100, 700, 0),
            (COMPLETED, 100, 700, 0),
            (ALLOC, 100, 600, 0),
        ]
    )
    addresses = made.outcome.take_addresses()
    assert addresses[2] == addresses[0] != addresses[1]
    small, both = 1024, 1024 + 3 * MIB
    assert made.outcome.take_allocated().tolist() == [small, small, both, 3 * MIB, 3 * MIB, both]
    assert made.outcome.take_reserved().tolist() == [2 * MIB] * 2 + [22 * MIB] * 4
    rows = made.segments.rows()
    assert rows[:, 1:].tolist() == [[2 * MIB, 0], [20 * MIB, 2]]
    assert rows[:, 0].tolist() == addresses[:2].tolist()
    assert made.outcome.out_of_memory_row == -1
    calls = made.counted.calls
    assert (calls.allocate_plain, calls.record_event, calls.create_pages) == (2, 0, 0)


def test_pages_are_mapped_one_by_one_and_opened_at_once() -> None:
    made = Replayed([(ALLOC, 100, 50 * MIB, 0)], is_expandable=True)
    calls = made.counted.calls
    assert (calls.reserve_range, calls.create_pages, calls.map, calls.set_access) == (1, 3, 3, 1)
    made.allocator.free(int(made.outcome.take_addresses()[0]))
    made.allocator.give_back()
    calls = made.counted.calls
    assert (calls.unmap, calls.release_pages, calls.release_range) == (3, 3, 1)
    assert (calls.record_event, calls.await_event, calls.synchronize) == (1, 1, 0)


LATE = [
    (ALLOC, 100, 3 * MIB, 0),
    (REQUESTED, 100, 3 * MIB, 0),
    (ALLOC, 200, 3 * MIB, 0),
    (COMPLETED, 100, 3 * MIB, 0),
    (ALLOC, 300, 3 * MIB, 0),
]


def test_a_free_that_completes_late_keeps_its_bytes_until_then() -> None:
    made = Replayed(LATE)
    first, second, third = made.outcome.take_addresses().tolist()
    assert second != first == third
    figures = made.allocator.figures()
    assert figures.allocated_peak == 6 * MIB
    assert made.outcome.take_allocated().tolist()[1:3] == [0, 3 * MIB]
    assert made.counted.calls.record_event == 1
    assert made.ledger.live_events == 0


def test_a_simulated_device_has_the_same_late_frees() -> None:
    memory = SimulatedMemory(2 * MIB, 1 << 30)
    allocator = PytorchCaching(memory)
    first, second, third = replay(log_of(LATE), allocator, memory).take_addresses().tolist()
    assert second != first == third


def test_another_device_is_asked_to_free_when_a_free_completes() -> None:
    """No stream of its own can be made up there: here the counting one hides the ledger."""
    memory = CountingMemory(LedgerMemory(2 * MIB, 1 << 30))
    allocator = PytorchCaching(memory)
    outcome = replay(log_of(LATE), allocator, memory, has_series=True)
    first, second, third = outcome.take_addresses().tolist()
    assert second != first == third
    assert memory.calls.record_event == 0
    assert outcome.take_allocated().tolist()[1:3] == [3 * MIB, 6 * MIB]


def test_a_free_that_does_not_complete_leaves_a_block_that_waits() -> None:
    made = Replayed([*LATE[:2], (COMPLETED, 999, 1, 0)])
    states = [block.state for segment in made.allocator.segments() for block in segment.blocks]
    assert states == [OnlineState.PENDING, OnlineState.FREE]


def test_without_ends_every_free_ends_at_once() -> None:
    made = Replayed([row for row in LATE if row[0] != COMPLETED])
    first, second, _ = made.outcome.take_addresses().tolist()
    assert first == second
    assert made.counted.calls.record_event == 0


def test_an_end_alone_is_a_free() -> None:
    made = Replayed([row for row in LATE if row[0] != REQUESTED])
    first, second, third = made.outcome.take_addresses().tolist()
    assert second != first == third


def test_a_block_from_before_is_left_alone() -> None:
    made = Replayed([(REQUESTED, 5, 1, 0), (COMPLETED, 5, 1, 0), (ALLOC, 5, 1, 0)])
    assert made.allocator.figures().allocated_bytes == 512


def test_actions_have_the_numbers_of_events() -> None:
    # ALLOCATE and alloc, SEGMENT_FREED and segment_free.
    for number, (action, kind) in enumerate(zip(RecordedAction, EVENT_KINDS, strict=True)):
        assert int(action) == number
        assert action.name.lower().startswith(kind)


@pytest.mark.parametrize("gone", [FREED, UNMAPPED])
def test_segments_that_go_one_behind_the_other_are_given_back_at_once(gone: int) -> None:
    made = Replayed(
        [
            (ALLOC, 100, 700, 0),
            (ALLOC, 200, 3 * MIB, 0),
            (ALLOC, 300, 700, 1),
            (REQUESTED, 100, 700, 0),
            (REQUESTED, 200, 3 * MIB, 0),
            (gone, 100, 2 * MIB, 0),
            (gone, 200, 20 * MIB, 0),
            (ALLOC, 100, 700, 0),
            (gone, 100, 2 * MIB, 0),
        ]
    )
    assert made.outcome.take_reserved().tolist()[4:] == [24 * MIB] + [2 * MIB] * 2 + [4 * MIB] * 2
    # Each time one waits for the device, where something is idle.
    assert made.counted.calls.synchronize == 1


@pytest.mark.parametrize("is_expandable", [False, True])
def test_a_replay_ends_where_memory_does(is_expandable: bool) -> None:
    rows = [(ALLOC, address, 8 * MIB, 0) for address in range(10)]
    made = Replayed(rows, capacity=40 * MIB, is_expandable=is_expandable)
    assert made.outcome.out_of_memory_row == (5 if is_expandable else 4)
    assert np.count_nonzero(made.outcome.take_addresses()) == made.outcome.out_of_memory_row
    assert len(made.outcome.take_reserved()) == made.outcome.out_of_memory_row


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ([(ALLOC, 1, 0, 0)], "row 0: a request has 1 to 281474976710656 bytes, found 0"),
        ([(ALLOC, 1, 1 << 49, 0)], "row 0: a request has 1 to 281474976710656 bytes"),
        ([(ALLOC, 1, 1, 0)] * 2, "row 1: a block begins at the address of a live block"),
    ],
)
def test_rows_that_cannot_be_are_refused(rows: list[Row], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        log_of(rows)


def test_rows_are_made_some_at_a_time() -> None:
    ledger = LedgerMemory(2 * MIB, 1 << 30, LedgerStreams.WHEN_TOLD)
    allocator = PytorchCaching(ledger)
    made = OnlineReplay(log_of(LATE), allocator, ledger, has_series=True)
    allocated = []
    for row in (1, 0, 2, 3, 3, 4, 5, 5):
        made.run_to(row)
        allocated.append(allocator.figures().allocated_bytes // MIB)
    assert allocated == [3, 3, 0, 3, 3, 3, 6, 6]
    with pytest.raises(ValueError, match="a replay runs to a row of its 5, found 6"):
        made.run_to(6)
    some, whole = made.end(), Replayed(LATE).outcome
    assert some.take_addresses().tolist() == whole.take_addresses().tolist()
    assert some.take_allocated().tolist() == whole.take_allocated().tolist()
    assert some.take_reserved().tolist() == whole.take_reserved().tolist()


def test_after_its_end_no_row_is_made() -> None:
    memory = SimulatedMemory(2 * MIB, 1 << 30)
    allocator = PytorchCaching(memory)
    made = OnlineReplay(log_of(LATE), allocator, memory)
    made.run_to(1)
    made.end()
    made.run_to(5)
    assert allocator.figures().requested_peak == 3 * MIB


def replayed_by_planned_memory(rows: list[Row]) -> tuple[PlannedReplay, PlannedAllocator]:
    ledger = LedgerMemory(2 * MIB, 1 << 30, LedgerStreams.WHEN_TOLD)
    allocator = PlannedAllocator(ledger)
    return PlannedReplay(log_of(rows), allocator, ledger, has_series=True), allocator


def test_planned_memory_has_the_same_late_frees() -> None:
    made, allocator = replayed_by_planned_memory(LATE)
    made.run_to(5)
    outcome = made.end()
    first, second, third = outcome.take_addresses().tolist()
    assert second != first == third
    assert outcome.take_allocated().tolist() == [3 * MIB, 0, 3 * MIB, 3 * MIB, 6 * MIB]
    assert outcome.take_reserved()[-1] == allocator.figures().reserved_bytes


def test_sums_that_cannot_be_end_a_replay() -> None:
    """Somebody else frees a block, which the allocator then does not count."""
    rows = [(ALLOC, 100, 3 * MIB, 0), (ALLOC, 200, 700, 0)]
    first, _ = replayed_by_planned_memory(rows)
    first.run_to(1)
    address = int(first.end().take_addresses()[0])
    made, allocator = replayed_by_planned_memory(rows)
    made.run_to(1)
    assert allocator.free(address)
    found = "found 3146428 requested, 1024 allocated and "
    with pytest.raises(RuntimeError, match=f"row 1: requested <= allocated .*, {found}"):
        made.run_to(2)


def test_columns_have_one_length() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="one entry for each row"):
        RequestLog(one.astype(np.uint8), one.astype(np.uint64), two, one)


def test_a_replay_hears_signals() -> None:
    rows = [(ALLOC, 100, 700, 0), (REQUESTED, 100, 700, 0)]
    columns = [np.tile(np.array(column), 500_000) for column in zip(*rows, strict=True)]
    action, address, size, stream = (np.append(column, column[0]) for column in columns)
    log = RequestLog(action.astype(np.uint8), address.astype(np.uint64), size, stream)
    ledger = LedgerMemory(2 * MIB, 1 << 30)
    allocator = PytorchCaching(ledger)
    with pytest.raises(KeyboardInterrupt):
        heard_within(OnlineReplay(log, allocator, ledger).run_to)(log.row_count)
    allocator.check()
    assert allocator.figures().allocated_bytes == 0


@pytest.mark.parametrize("is_expandable", [False, True], ids=["caching", "expandable"])
@pytest.mark.parametrize("capacity", [PLENTY, 400 * MIB], ids=["plenty", "scarce"])
def test_a_recorded_program_is_made_again_address_by_address(
    capacity: int, is_expandable: bool
) -> None:
    given_back = 0
    for seed in range(6):
        program = RecordedProgram(seed, capacity, is_expandable=is_expandable)
        program.run(1500)
        ledger = LedgerMemory(2 * MIB, PLENTY, LedgerStreams.WHEN_TOLD)
        segments = SegmentLog(ledger)
        if is_expandable:
            ledger.dictate_ranges(program.places)
        else:
            ledger.dictate_plain(program.places)
        allocator = (PytorchExpandable if is_expandable else PytorchCaching)(segments)
        outcome = replay(log_of(program.rows), allocator, ledger, segments)
        allocator.check()
        recorded = [address for action, address, _, _ in program.rows if action == ALLOC]
        assert outcome.take_addresses().tolist() == recorded
        kept = {ALLOCATED, MAPPED}
        obtained = [list(row[1:3]) for row in program.rows if row[0] in kept]
        assert segments.rows()[:, :2].tolist() == obtained
        given_back += program.given_back
    assert given_back > 5
