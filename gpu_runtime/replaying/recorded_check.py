"""A replay compared with the recorded run: the segments, and the address of each request."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np

from planners.compare.records import environment
from planners.errors import GaplessError
from planners.model.columns import IntColumn
from planners.model.online_result import OnlineResult
from planners.model.request_sequence import RequestAction, RequestSequence
from planners.online.online_records import online_record
from planners.online.online_run import OnlineRun
from planners.text.byte_units import exact_bytes

CACHING, EXPANDABLE = "pytorch-caching", "pytorch-expandable"


@dataclass(frozen=True)
class RecordedCheck:
    """The agreement of a replay with the recorded run."""

    # Requests at their recorded address, before the first that differs. Segments with the recorded
    # bytes, address and request, before the first that differs.
    agreeing_requests: int
    requests: int
    agreeing_segments: int
    segments: int
    # The first difference, in words; empty if there is none.
    difference: str = ""


def checked_allocator(requests: RequestSequence) -> str:
    """Return the recorded allocator; ``GaplessError`` if the recording does not tell."""
    kinds = set(requests.segments[:, 1].tolist())
    if not kinds:
        raise GaplessError(
            f"--check: {requests.name} has no segments to compare a replay with; a recording of "
            f"PyTorch's allocator from its first event on is needed"
        )
    if len(kinds) > 1:
        raise GaplessError(
            f"--check: {requests.name} has plain and mapped segments; segments of one kind "
            f"are needed"
        )
    return EXPANDABLE if kinds == {1} else CACHING


def check_against_recording(requests: RequestSequence, result: OnlineResult) -> RecordedCheck:
    """Compare the addresses and segments of a replay with the recorded ones."""
    recorded = requests.segments[:, [0, 2, 3]]
    # Leave out segments that came for a request after the end of the recording.
    recorded = recorded[recorded[:, 0] < requests.row_count]
    apart = _first_difference(recorded, result.segments)
    made = requests.address != result.addresses
    wrong = int(made.argmax()) if made.any() else len(made)
    rows = np.flatnonzero(requests.action == RequestAction.ALLOCATE)
    at_request = int(rows[wrong]) if wrong < len(rows) else requests.row_count
    segment_rows = [
        int(side[apart, 0]) for side in (recorded, result.segments) if apart < len(side)
    ]
    # A segment is created before its request is served.
    at_segment = min(segment_rows, default=requests.row_count)
    difference = ""
    if at_segment <= at_request and segment_rows:
        where = _request_at(requests, at_segment)
        sides = (_segment(side, apart) for side in (recorded, result.segments))
        difference = "{}: a segment of {} was recorded, replayed {}".format(where, *sides)
    elif wrong < len(made):
        where = _request_at(requests, at_request)
        found = _address(int(result.addresses[wrong]))
        difference = f"{where}: at {_address(int(requests.address[wrong]))}, replayed at {found}"
    return RecordedCheck(wrong, len(made), apart, len(recorded), difference)


def _first_difference(first: IntColumn, second: IntColumn) -> int:
    """Return the number of equal rows at the beginning."""
    both = min(len(first), len(second))
    differs = (first[:both] != second[:both]).any(axis=1)
    return int(differs.argmax()) if differs.any() else both


def _request_at(requests: RequestSequence, row: int) -> str:
    number = int(requests.request[row])
    return (
        f"event {requests.event[row]:,}, request {number:,} of "
        f"{exact_bytes(int(requests.size[number]))} bytes"
    )


def _segment(rows: IntColumn, index: int) -> str:
    if index >= len(rows):
        return "none"
    _, address, size = rows[index].tolist()
    return f"{exact_bytes(size)} bytes at {_address(address)}"


def _address(address: int) -> str:
    return f"{address:#x}" if address else "no address"


SCHEMA = "gapless-replay"
SCHEMA_VERSION = 1


def replay_json(run: OnlineRun, file: str, checked: RecordedCheck | None) -> str:
    """Return the output of ``--json``; `check` is null unless the user asked for it."""
    record = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "environment": environment(),
        "instance": run.requests.name,
        "file": file,
        "check": None if checked is None else asdict(checked),
        **online_record(run),
    }
    return json.dumps(record, indent=1, allow_nan=False) + "\n"
