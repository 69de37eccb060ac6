"""Results of online allocators as plain values for programs, with every number exact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from planners.online.online_run import OnlineRow, OnlineRun


class OnlineFields(TypedDict):
    """The JSON fields of an online allocator; those of its figures are null if it failed."""

    allocator: str
    valid: bool
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
    """The JSON fields of the requests."""

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


def online_fields(row: OnlineRow) -> dict[str, Any]:
    """Return a row as the plain values that ``OnlineFields`` lists."""
    own: dict[str, Any] = {"allocator": row.label, "valid": row.valid, "reason": row.reason}
    fields: dict[str, Any] = {}
    for name in OnlineFields.__annotations__:
        value = own[name] if name in own else row.result and getattr(row.result, name)
        fields[name] = dict(value) if isinstance(value, Mapping) else value
    return fields
