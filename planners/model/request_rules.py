"""The rules of a sequence of requests: what is refused, with which message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planners.errors import InstanceError
from planners.model.columns import BoolColumn, IntColumn, frozen_names
from planners.model.request_action import NOWHERE, RequestAction
from planners.model.rules import MAX_TOTAL_BYTES

if TYPE_CHECKING:
    from planners.model.request_sequence import RequestSequence

SEGMENT_FIELDS = 5


def require_request_rules(its: RequestSequence) -> None:
    """Raise where a rule is broken."""
    rows, requests = len(its.action), len(its.size)
    frozen_names("module_names", its.module_names, "module")
    for field in ("action", "request", "event"):
        _require_length(field, getattr(its, field), "row", "action", (rows,))
    _require_length("size", its.size, "request", "size", (requests,))
    _require_length("stream", its.stream, "request", "size", (requests,))
    _require_length("address", its.address, "request", "size", (0, requests))
    for field in ("phase", "module"):
        _require_length(field, getattr(its, field), "row", "action", (0, rows))
        column = getattr(its, field)
        _require(field, "row", column, column >= NOWHERE, "-1 or more is needed")
    if its.module_names:
        count = len(its.module_names)
        _require("module", "row", its.module, its.module < count, f"{count} modules have names")
    _require_sizes(its.size)
    _require_order(its, requests)
    _require_segments(its.segments, rows)
    begins = its.iteration_rows
    if begins.ndim != 1:
        raise InstanceError(f"field iteration_rows: one dimension is needed, found {begins.ndim}")
    inside = (begins >= 0) & (begins <= rows)
    _require("iteration_rows", "entry", begins, inside, f"a row up to {rows} is needed")


def _require_length(
    field: str, column: IntColumn, entry: str, of: str, lengths: tuple[int, ...]
) -> None:
    if column.dtype.kind not in "iu" or column.ndim != 1:
        raise InstanceError(
            f"field {field}: one dimension of whole numbers is needed, found {column.dtype} of "
            f"shape {column.shape}"
        )
    if len(column) not in lengths:
        or_none = ", or none," if len(lengths) > 1 else ""
        raise InstanceError(
            f"field {field}: one entry a {entry} is needed{or_none or ','} found {len(column)} "
            f"for {lengths[-1]} {entry}s of field {of}"
        )


def _require(field: str, entry: str, column: IntColumn, right: BoolColumn, rule: str) -> None:
    for index in np.flatnonzero(~right)[:1].tolist():
        raise InstanceError(f"field {field}, {entry} {index}: {rule}, found {column[index]}")


def _require_sizes(size: IntColumn) -> None:
    _require("size", "request", size, size > 0, "a request is for 1 byte or more")
    # So that no later sum can overflow; the sum in floating point is off by far less.
    total = size.sum(dtype=np.float64)
    if total > MAX_TOTAL_BYTES:
        raise InstanceError(
            f"field size: all requests together must stay below 2**61 bytes, found {total:.4g}"
        )


def _require_order(its: RequestSequence, requests: int) -> None:
    """Raise unless requests are made in the order of their numbers, and then end once."""
    action, request = its.action, its.request
    known = (action >= 0) & (action < len(RequestAction))
    _require("action", "row", action, known, f"0 to {len(RequestAction) - 1} is needed")
    gives_back = action == RequestAction.GIVE_BACK
    inside = (request >= 0) & (request < np.where(gives_back, 1, requests))
    rule = f"one of {requests} requests is needed, 0 where an action has none"
    _require("request", "row", request, inside, rule)
    made = np.flatnonzero(action == RequestAction.ALLOCATE)
    if not np.array_equal(request[made], np.arange(requests)):
        raise InstanceError(
            f"field request: {requests} requests are made once each, in the order of their "
            f"numbers, found {request[made][:10].tolist()} first"
        )
    # The row at which something happened last to each request.
    last = made.copy()
    for kind in (RequestAction.FREE_REQUESTED, RequestAction.FREE_COMPLETED):
        rows = np.flatnonzero(action == kind)
        again = np.ones(len(rows), dtype=np.bool_)
        again[np.unique(request[rows], return_index=True)[1]] = False
        for row in rows[again | (rows < last[request[rows]])][:1].tolist():
            raise InstanceError(
                f"field request, row {row}: a request is freed once, after it was made, and "
                f"completely after that was requested, found request {request[row]}"
            )
        last[request[rows]] = rows


def _require_segments(segments: IntColumn, rows: int) -> None:
    if segments.dtype.kind not in "iu" or segments.shape[1:] != (SEGMENT_FIELDS,):
        raise InstanceError(
            f"field segments: rows of {SEGMENT_FIELDS} whole numbers are needed, found "
            f"{segments.dtype} of shape {segments.shape}"
        )
    row, is_mapped = segments[:, 0], segments[:, 1]
    right = (row >= 0) & (row <= rows) & ((is_mapped == 0) | (is_mapped == 1))
    for index in np.flatnonzero(~right)[:1].tolist():
        raise InstanceError(
            f"field segments, entry {index}: a row up to {rows} is needed, and 0 or 1 for what is "
            f"mapped, found {row[index]} and {is_mapped[index]}"
        )
