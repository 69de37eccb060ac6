"""Online allocators for programs: every number exact."""

from __future__ import annotations

from typing import Any, TypedDict

from planners.online.online_run import OnlineRow, OnlineRun


class OnlineFields(TypedDict):
    """What is said of an online allocator; null where it failed."""

    allocator: str
    reserved_peak: int | None
    allocated_peak: int | None
    requested_peak: int | None
    efficiency: float | None
    fragmentation: float | None
    device_calls: dict[str, int] | None
    stalls: int | None
    out_of_memory_row: int | None
    seconds: float | None
    device_seconds: dict[str, float] | None
    last_iteration_seconds: float | None
    reason: str


class RequestFields(TypedDict):
    """What is said of the requests."""

    recorded: bool
    events: int
    requests: int
    device: str
    capacity: int | None
    left_out: list[str]


def online_record(run: OnlineRun) -> dict[str, Any]:
    """Return the requests, the terms and all rows as plain values."""
    fields: RequestFields = {
        "recorded": run.requests.is_recorded,
        "events": run.requests.row_count,
        "requests": run.requests.request_count,
        "device": run.terms.device.value,
        "capacity": run.terms.capacity,
        "left_out": list(run.left_out),
    }
    return {**fields, "results": [online_fields(row) for row in run.rows]}


def online_fields(row: OnlineRow) -> OnlineFields:
    """Return a row as plain values."""
    result = row.result
    return {
        "allocator": row.label,
        "reserved_peak": None if result is None else result.reserved_peak,
        "allocated_peak": None if result is None else result.allocated_peak,
        "requested_peak": None if result is None else result.requested_peak,
        "efficiency": None if result is None else result.efficiency,
        "fragmentation": None if result is None else result.fragmentation,
        "device_calls": None if result is None else dict(result.device_calls),
        "stalls": None if result is None else result.stalls,
        "out_of_memory_row": None if result is None else result.out_of_memory_row,
        "seconds": None if result is None else result.seconds,
        "device_seconds": None if result is None else dict(result.device_seconds),
        "last_iteration_seconds": None if result is None else result.last_iteration_seconds,
        "reason": row.reason,
    }
