"""The trace: what its constructor refuses, from events to requests, phases and iterations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.formats.recorded_trace import read_recorded_trace_file, write_recorded_trace
from instances.traces.allocation_trace import (
    MARK_FIELDS,
    REQUEST_FIELDS,
    AllocationTrace,
    Phase,
)
from instances.traces.event_log import (
    ALLOC,
    EVENT_KINDS,
    FREE_COMPLETED,
    FREE_REQUESTED,
    MARKER_BYTES,
    EventLog,
    Marks,
    number_phases,
    trace_of_events,
)
from planners.errors import InstanceError

FORWARD, BACKWARD, OPTIMIZER = Phase

COLUMNS = (
    "size", "alloc", "free_requested", "freed", "stream", "address", "before", "is_marker",
    "alloc_module", "free_module", "mark_event", "mark_phase", "mark_microbatch",
    "mark_iteration", "segments",
)  # fmt: skip


def log_of(*events: tuple[int, int, int, int]) -> EventLog:
    """Events as (kind, address, bytes, stream)."""
    kind, address, size, stream = np.array(events, dtype=np.int64).reshape(-1, 4).T
    return EventLog(kind, address, size, stream)


def free(address: int, size: int, stream: int = 0) -> list[tuple[int, int, int, int]]:
    return [(FREE_REQUESTED, address, size, stream), (FREE_COMPLETED, address, size, stream)]


# --- the constructor -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"size": [-1, 5]}, "field size, request 0: bytes are at least 0, found -1"),
        ({"alloc": [3, 1]}, "field alloc, request 1: requests are in the order"),
        ({"alloc": [0, 9]}, "field alloc, request 1: an event below 9"),
        ({"free_requested": [0, 5]}, "field free_requested, request 0: an event after"),
        ({"freed": [4, 4]}, "field freed, request 1: no event before free_requested"),
        ({"stream": [1]}, "field stream: one entry a request is needed, found 1 for 2"),
        ({"role": [0, 4]}, "field role, request 1: a role from 0 to 3, found 4"),
        ({"element_bytes": [-1, 0]}, "field element_bytes, request 0: bytes are at least 0"),
        ({"alloc_module": [0, 2]}, "field alloc_module, request 1: -1 or below 1"),
        ({"mark_phase": [0, 1]}, "field mark_phase: one entry a mark is needed, found 2 for 1"),
        ({"mark_phase": [3]}, "mark 0: events up to 9 and iterations ascend"),
        ({"segments": [(0, 4, 0, 1, 0)]}, "field segments, row 0: a kind from 0 to 3"),
        ({"size": [0.5, 1]}, "field size, request 0: a whole number"),
    ],
)
def test_a_column_that_breaks_a_rule_is_refused(changed: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {
        "event_count": 9, "size": [4, 5], "alloc": [0, 1], "free_requested": [3, 5],
        "freed": [4, 9], "alloc_module": [0, -1], "module_names": ["layer"], "mark_event": [0],
        "mark_phase": [0], "mark_microbatch": [0], "mark_iteration": [0],
    }  # fmt: skip
    AllocationTrace(**fields)
    with pytest.raises(InstanceError, match=message):
        AllocationTrace(**{**fields, **changed})


def test_some_requests_with_other_sizes_keep_all_else() -> None:
    trace = AllocationTrace(
        9, [4, 5, 6], [0, 1, 2], [3, 5, 9], [4, 9, 9], stream=[7, 8, 9], role=[0, 2, 1],
        element_bytes=[0, 4, 0],
        alloc_module=[0, -1, 0], module_names=["layer"], mark_event=[0], mark_phase=[0],
        mark_microbatch=[0], mark_iteration=[0], segments=[(0, 0, 0, 1, 0)], name="run",
        origin={"a": 1},
    )  # fmt: skip
    some = trace.of_requests(np.array([1, 1, 2]), np.array([50, 51, 60]))
    assert some.size.tolist() == [50, 51, 60]
    for field in REQUEST_FIELDS[1:]:
        assert getattr(some, field).tolist() == getattr(trace, field)[[1, 1, 2]].tolist(), field
    for field in (*MARK_FIELDS, "segments"):
        assert getattr(some, field).tolist() == getattr(trace, field).tolist(), field
    for field in ("event_count", "module_names", "name", "origin"):
        assert getattr(some, field) == getattr(trace, field), field


# --- from events ---------------------------------------------------------------------------


def test_a_block_lives_until_the_device_is_done_with_it() -> None:
    trace = trace_of_events(
        log_of(
            (ALLOC, 64, 10, 7), (FREE_REQUESTED, 64, 10, 7), (ALLOC, 128, 20, 0),
            (FREE_COMPLETED, 64, 10, 7), (ALLOC, 64, 30, 0),
        )
    )  # fmt: skip
    assert trace.size.tolist() == [10, 20, 30]
    assert trace.alloc.tolist() == [0, 2, 4]
    assert trace.free_requested.tolist() == [1, 5, 5]
    assert trace.freed.tolist() == [3, 5, 5]
    assert trace.stream.tolist() == [7, 0, 0]


def test_an_address_may_not_be_given_out_before_its_free_completes() -> None:
    events = log_of((ALLOC, 64, 10, 0), (FREE_REQUESTED, 64, 10, 0), (ALLOC, 64, 10, 0))
    with pytest.raises(InstanceError, match="event 2: an address is allocated once"):
        trace_of_events(events)


def test_a_block_is_freed_once() -> None:
    with pytest.raises(InstanceError, match=r"event 3: an address is freed once .* 0x40 freed ag"):
        trace_of_events(log_of((ALLOC, 64, 10, 0), *free(64, 10), *free(64, 10)))


def test_blocks_from_before_stand_first() -> None:
    trace = trace_of_events(log_of((ALLOC, 64, 10, 0), *free(8, 5), *free(64, 10)))
    assert trace.size.tolist() == [5, 10]
    assert trace.before.tolist() == [True, False]
    assert trace.alloc.tolist() == [0, 0]
    assert trace.freed.tolist() == [2, 4]


def test_a_completion_alone_is_a_request_as_well() -> None:
    trace = trace_of_events(log_of((ALLOC, 64, 10, 0), (FREE_COMPLETED, 64, 10, 0)))
    assert (trace.free_requested.tolist(), trace.freed.tolist()) == ([1], [1])


def test_segments_are_kept_apart_from_requests() -> None:
    kind = EVENT_KINDS.index("segment_map")
    trace = trace_of_events(log_of((kind, 4096, 2 << 20, 3), (ALLOC, 4096, 10, 3)))
    assert trace.segments.tolist() == [[0, 2, 4096, 2 << 20, 3]]
    assert trace.size.tolist() == [10]


def test_marker_allocations_begin_phases() -> None:
    marker = {phase: size for size, phase in MARKER_BYTES.items()}
    events = []
    for phase in (FORWARD, BACKWARD, FORWARD, BACKWARD, OPTIMIZER, FORWARD):
        events += [(ALLOC, 64, marker[phase], 0), *free(64, marker[phase])]
    # 101 bytes that somebody uses mark nothing.
    events += [(ALLOC, 64, 101, 0), (ALLOC, 128, 1, 0), *free(64, 101)]
    trace = trace_of_events(log_of(*events))
    assert trace.is_marker.tolist() == [True] * 6 + [False, False]
    assert trace.mark_event.tolist() == [0, 3, 6, 9, 12, 15]
    assert trace.mark_phase.tolist() == [0, 1, 0, 1, 2, 0]
    assert trace.mark_microbatch.tolist() == [0, 0, 1, 1, 0, 0]
    assert trace.mark_iteration.tolist() == [0, 0, 0, 0, 0, 1]
    assert trace.iteration_count == 2


def test_marks_that_are_given_say_which_requests_are_markers() -> None:
    marker = next(iter(MARKER_BYTES))
    log = log_of(
        (ALLOC, 64, marker, 0), *free(64, marker), (ALLOC, 64, marker, 0), *free(64, marker)
    )
    trace = trace_of_events(log, marks=Marks([3], [int(BACKWARD)], [0], [0]))
    assert trace.is_marker.tolist() == [False, True]


def test_microbatches_of_an_interleaved_pipeline_are_numbered_by_kind_of_pass() -> None:
    phases = [FORWARD, FORWARD, BACKWARD, FORWARD, BACKWARD, BACKWARD, OPTIMIZER, FORWARD]
    assert number_phases(phases) == ([0, 1, 0, 2, 1, 2, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1])


# --- written and read ----------------------------------------------------------------------


@st.composite
def traces(draw: st.DrawFn) -> AllocationTrace:
    """Random runs over a few addresses, some of whose blocks were there before."""
    events: list[tuple[int, int, int, int]] = []
    live: dict[int, tuple[int, int]] = {}
    requested: set[int] = set()
    seen: set[int] = set()
    for _ in range(draw(st.integers(0, 30))):
        address = draw(st.sampled_from([64, 128, 256, 512]))
        size, stream = live.get(address, (draw(st.integers(0, 200)), draw(st.sampled_from([0, 9]))))
        if address in requested:
            events.append((FREE_COMPLETED, address, size, stream))
            requested.remove(address)
            live.pop(address, None)
        elif address in live or (address not in seen and draw(st.booleans())):
            events.append((FREE_REQUESTED, address, size, stream))
            live[address] = (size, stream)
            requested.add(address)
        else:
            events.append((ALLOC, address, size, stream))
            live[address] = (size, stream)
        seen.add(address)
    log = log_of(*events)
    modules = draw(st.lists(st.integers(-1, 1), min_size=len(events), max_size=len(events)))
    log = EventLog(log.kind, log.address, log.size, log.stream, np.array(modules, dtype=np.int64))
    marks = Marks([0], [int(FORWARD)], [0], [0]) if draw(st.booleans()) else None
    return trace_of_events(log, marks=marks, module_names=["a", "b.c"])


@given(trace=traces())
def test_a_written_trace_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, trace: AllocationTrace
) -> None:
    path = tmp_path_factory.mktemp("trace") / "run.npz"
    write_recorded_trace(trace, path)
    back = read_recorded_trace_file(path)
    for column in COLUMNS:
        assert getattr(back, column).tolist() == getattr(trace, column).tolist(), column
    assert back.module_names == trace.module_names
    assert back.event_count == trace.event_count


def test_a_phase_that_begins_in_silence_keeps_its_number(tmp_path: Path) -> None:
    trace = AllocationTrace(
        6, [8, 9], [1, 4], [2, 6], [3, 6], address=[64, 64],
        mark_event=[0, 5], mark_phase=[0, 1], mark_microbatch=[0, 0], mark_iteration=[0, 0],
    )  # fmt: skip
    write_recorded_trace(trace, tmp_path / "run.npz")
    back = read_recorded_trace_file(tmp_path / "run.npz")
    for column in COLUMNS:
        assert getattr(back, column).tolist() == getattr(trace, column).tolist(), column
    assert back.event_count == 6


def test_events_that_share_a_number_get_their_own(tmp_path: Path) -> None:
    trace = AllocationTrace(4, [8, 9], [0, 2], [2, 3], [2, 4], mark_event=[2], mark_phase=[1],
                            mark_microbatch=[0], mark_iteration=[0], address=[64, 64])  # fmt: skip
    write_recorded_trace(trace, tmp_path / "run.npz")
    back = read_recorded_trace_file(tmp_path / "run.npz")
    assert back.alloc.tolist() == [0, 3]
    assert back.free_requested.tolist() == [1, 4]
    assert back.freed.tolist() == [2, 5]
    assert back.mark_event.tolist() == [1]
