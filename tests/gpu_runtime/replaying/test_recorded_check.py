"""A replay held against a recording: where it agrees, and the first thing that does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpu_runtime.replaying.recorded_check import (
    CACHING,
    EXPANDABLE,
    RecordedCheck,
    check_against_recording,
    checked_allocator,
)
from instances.traces.trace_requests import requests_of_trace
from planners.errors import GaplessError, InstanceError
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence
from planners.registry import choose_online
from tests.gpu_runtime.replaying.recordings import (
    BASE,
    MIB,
    SEGMENT_ALLOC,
    SEGMENT_MAP,
    caching_requests,
    random_trace,
)


def replayed(requests: RequestSequence, name: str = CACHING) -> OnlineResult:
    (allocator,) = choose_online(name)
    return allocator.info.build()(requests, OnlineTerms())


def checked(requests: RequestSequence, name: str = CACHING) -> RecordedCheck:
    return check_against_recording(requests, replayed(requests, name))


def test_documented_rules_give_the_recorded_addresses() -> None:
    requests = caching_requests()
    assert checked_allocator(requests) == CACHING
    assert checked(requests) == RecordedCheck(4, 4, 2, 2)


def test_the_first_address_that_differs_is_named() -> None:
    address = [BASE, BASE + 64 * MIB, BASE + 80 * MIB, BASE]
    assert checked(caching_requests(address=address)) == RecordedCheck(
        2, 4, 2, 2,
        "event 4, request 2 of 2,097,152 bytes: at 0x10005000000, replayed at 0x10004200000",
    )  # fmt: skip


def test_a_segment_of_another_size_is_named_before_what_lies_in_it() -> None:
    second = (2, SEGMENT_ALLOC, BASE + 64 * MIB, 4 * MIB, 0)
    segments = [(0, SEGMENT_ALLOC, BASE, 2 * MIB, 0), second]
    found = checked(caching_requests(segments=segments))
    assert (found.agreeing_segments, found.agreeing_requests) == (1, 4)
    assert found.difference == (
        "event 3, request 1 of 2,097,152 bytes: a segment of 4,194,304 bytes at 0x10004000000 was "
        "recorded, replayed 20,971,520 bytes at 0x10004000000"
    )


def test_one_segment_more_or_less_differs() -> None:
    first = (0, SEGMENT_ALLOC, BASE, 2 * MIB, 0)
    few = checked(caching_requests(segments=[first]))
    assert "was recorded, replayed 20,971,520 bytes" in few.difference
    assert "a segment of none was recorded" in few.difference
    second = (2, SEGMENT_ALLOC, BASE + 64 * MIB, 20 * MIB, 0)
    many = checked(caching_requests(segments=[first, second, (5, SEGMENT_ALLOC, BASE, 2 * MIB, 0)]))
    assert many == RecordedCheck(
        4, 4, 2, 3,
        "event 6, request 3 of 1,048,577 bytes: a segment of 2,097,152 bytes at 0x10000000000 was "
        "recorded, replayed none",
    )  # fmt: skip


def test_segments_of_unrecorded_requests_do_not_count() -> None:
    late = (8, SEGMENT_ALLOC, BASE + 300 * MIB, 2 * MIB, 0)
    requests = caching_requests()
    grown = replace(
        requests, segments=np.vstack([requests.segments, [requests.row_count, *late[1:]]])
    )
    assert checked(grown) == RecordedCheck(4, 4, 2, 2)


@pytest.mark.parametrize("name", [CACHING, EXPANDABLE])
@pytest.mark.parametrize("streams", [1, 3])
def test_a_replay_of_a_replay_makes_the_same_segments(name: str, streams: int) -> None:
    """Dictated addresses, which may be anywhere, are those that the replay takes."""
    requests = requests_of_trace(random_trace(streams, streams=streams))
    result = replayed(requests, name)
    row, address, size = result.segments.T
    stream = requests.stream[requests.request[row]]
    kind = np.full(len(row), int(name == EXPANDABLE))
    far = -(1 << 47)
    segments = np.column_stack([row, kind, address + far, size, stream])
    recorded = replace(requests, segments=segments, address=result.addresses + far)
    assert checked_allocator(recorded) == name
    found = checked(recorded, name)
    assert (found.difference, found.agreeing_requests) == ("", requests.request_count)
    assert found.agreeing_segments == len(row) > 5


def test_a_recording_has_to_tell_of_segments_of_one_kind() -> None:
    with pytest.raises(GaplessError, match="has no segments"):
        checked_allocator(caching_requests(segments=[]))
    mixed = [(0, SEGMENT_ALLOC, BASE, MIB, 0), (0, SEGMENT_MAP, BASE, MIB, 0)]
    with pytest.raises(GaplessError, match="of one kind"):
        checked_allocator(caching_requests(segments=mixed))
    mapped = [(0, SEGMENT_MAP, BASE, MIB, 0)]
    assert checked_allocator(caching_requests(segments=mapped)) == EXPANDABLE


def test_addresses_that_no_device_has_are_an_error() -> None:
    with pytest.raises(InstanceError, match="segments: field addresses: from 1 on"):
        replayed(caching_requests(segments=[(0, SEGMENT_ALLOC, 0, 2 * MIB, 0)]))


def test_addresses_that_a_ledger_makes_up_are_not_dictated() -> None:
    far = (0, SEGMENT_ALLOC, 1 << 62, 2 * MIB, 0)
    assert replayed(caching_requests(segments=[far])).reserved_peak == 22 * MIB


def test_late_frees_are_late_in_the_random_traces() -> None:
    requests = requests_of_trace(random_trace(1))
    assert (requests.action == RequestAction.FREE_REQUESTED).sum() > 20
