"""The requests of a run in order, as an online allocator gets them, and their rules."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from planners.errors import InstanceError
from planners.model.columns import IntColumn, frozen_names, read_only, require_each
from planners.model.problem import Problem, Safety
from planners.model.rules import MAX_TOTAL_BYTES

# Phase or module of a row that is in none.
NOWHERE = -1
SEGMENT_FIELDS = 5


class RequestAction(enum.IntEnum):
    """The event that a row of a sequence describes."""

    ALLOCATE = 0
    # The program freed the block, but another stream may still use it.
    FREE_REQUESTED = 1
    # The block is free, with or without an earlier FREE_REQUESTED.
    FREE_COMPLETED = 2
    # Idle memory went back to the device: on the program's request, or because memory was short.
    GIVE_BACK = 3


@dataclass(frozen=True, eq=False)
class RequestSequence:
    """Requests for memory and their ends, row by row.

    Requests are numbered in the order in which they are made, and none is for 0 bytes.
    """

    name: str
    # One entry for each row: a :class:`RequestAction`; the number of the request, or 0 if there is
    # none; and the event of the recording that the row stands for.
    action: IntColumn
    request: IntColumn
    event: IntColumn
    # One entry for each request: its bytes, and the handle of the requesting stream.
    size: IntColumn
    stream: IntColumn
    # True for the requests of a recorded run, False for the steps of an instance.
    is_recorded: bool = False
    # For a recorded run: the address at which each request was served.
    address: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    # For a recorded run: rows ``(row, is_mapped, address, bytes, stream)`` of the memory that came
    # from the device. ``row`` is the row of the request that caused it; ``is_mapped`` is 1 for
    # memory that was mapped into an expandable segment.
    segments: IntColumn = field(default_factory=lambda: np.empty((0, 5), dtype=np.int64))
    # The rows at which iterations begin, if iterations are marked.
    iteration_rows: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    # One entry for each row, or none. ``phase``: the number of the computation phase within its
    # iteration, -1 before the first. ``module``: the index into `module_names` of the row's module,
    # -1 for none.
    phase: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    module: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    module_names: tuple[str, ...] = ()
    # One entry for each row, or none: the private pool in which a request is made, or whose memory
    # is given back; 0 is the common pool.
    pool: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __post_init__(self) -> None:
        _require_rules(self)
        # Several allocators get the same columns.
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(value))

    @property
    def row_count(self) -> int:
        return len(self.action)

    @property
    def request_count(self) -> int:
        return len(self.size)

    @property
    def last_iteration_row(self) -> int:
        """The row at which the last iteration begins; 0 if no iterations are marked."""
        return int(self.iteration_rows.max(initial=0))

    @property
    def allocation_rows(self) -> IntColumn:
        """The row at which each request is made."""
        return np.flatnonzero(self.action == RequestAction.ALLOCATE)

    @property
    def completion_rows(self) -> IntColumn:
        """The row at which each request's block is free; the number of rows if it never is."""
        completed = np.flatnonzero(self.action == RequestAction.FREE_COMPLETED)
        rows = np.full(self.request_count, self.row_count, dtype=np.int64)
        rows[self.request[completed]] = completed
        return rows

    @property
    def end_rows(self) -> IntColumn:
        """The row at which each request is first freed; the number of rows if it never is."""
        frees = (RequestAction.FREE_REQUESTED, RequestAction.FREE_COMPLETED)
        freed = np.flatnonzero(np.isin(self.action, frees))
        rows = np.full(self.request_count, self.row_count, dtype=np.int64)
        np.minimum.at(rows, self.request[freed], freed)
        return rows

    def of_rows(self, column: IntColumn) -> IntColumn:
        """Return each row's entry of a column over requests; 0 for rows that give memory back."""
        is_none = self.action == RequestAction.GIVE_BACK
        entries: IntColumn = np.append(column, 0)[np.where(is_none, len(column), self.request)]
        return entries

    def live_bytes(self, size: IntColumn) -> IntColumn:
        """Return the live bytes after each row; ``size`` has one entry for each request."""
        change = np.zeros(self.row_count + 1, dtype=np.int64)
        change[self.allocation_rows] = size
        np.subtract.at(change, self.end_rows, size)
        live: IntColumn = np.cumsum(change[:-1])
        return live

    def live_after(self, rows: int) -> NDArray[np.int64]:
        """Return the requests that are made in the first ``rows`` rows and not completed there."""
        requests = self.request[:rows]
        begun = requests[self.action[:rows] == RequestAction.ALLOCATE]
        ended = requests[self.action[:rows] == RequestAction.FREE_COMPLETED]
        return np.setdiff1d(begun, ended, assume_unique=True)


def requests_of_problem(problem: Problem) -> RequestSequence:
    """Return an instance's requests: each tensor is requested at its start and freed at its end.

    At one step, frees come before requests. The stream is that of the producer, or 0 if there is
    none. Gaps, chains and pins are ignored, because they mean nothing to an online allocator.
    """
    if problem.safety is Safety.PAIRS:
        raise InstanceError(
            f"requests of {problem.name}: lifetimes are needed, found explicit unsafe pairs, which "
            "have no time"
        )
    asked = np.flatnonzero(problem.size > 0)
    asked = asked[np.argsort(problem.start[asked], kind="stable")]
    number = np.arange(len(asked))
    graph = problem.graph
    stream = np.zeros_like(asked) if graph is None else graph.stream[graph.producer[asked]]
    # Ends come first, so that a stable sort puts them before the starts of the same step.
    step = np.concatenate([problem.end[asked], problem.start[asked]])
    order = np.argsort(step, kind="stable")
    actions = [RequestAction.FREE_COMPLETED, RequestAction.ALLOCATE]
    return RequestSequence(
        problem.name,
        action=np.repeat(actions, len(asked))[order],
        request=np.tile(number, 2)[order],
        event=step[order],
        size=problem.size[asked],
        stream=stream.astype(np.int64),
        phase=_row_places(problem.phase_start, problem.phase_end, asked, order),
        module=_row_places(problem.layer_start, problem.layer_end, asked, order),
    )


def _row_places(
    begin: IntColumn | None, end: IntColumn | None, asked: IntColumn, order: IntColumn
) -> IntColumn:
    """Return each row's phase or module from columns over tensors; empty without such columns."""
    if begin is None or end is None:
        return np.empty(0, dtype=np.int64)
    places: IntColumn = np.concatenate([end[asked], begin[asked]])[order]
    return np.maximum(places, NOWHERE)


def _require_rules(its: RequestSequence) -> None:
    """Raise ``InstanceError`` if a rule is broken."""
    rows, requests = len(its.action), len(its.size)
    frozen_names("module_names", its.module_names, "module")
    for name in ("action", "request", "event"):
        _require_length(name, getattr(its, name), "row", "action", (rows,))
    _require_length("size", its.size, "request", "size", (requests,))
    _require_length("stream", its.stream, "request", "size", (requests,))
    _require_length("address", its.address, "request", "size", (0, requests))
    for name in ("phase", "module"):
        _require_length(name, getattr(its, name), "row", "action", (0, rows))
        column = getattr(its, name)
        require_each(name, "row", column >= NOWHERE, "-1 or more is needed", column)
    _require_length("pool", its.pool, "row", "action", (0, rows))
    require_each("pool", "row", its.pool >= 0, "0 or more is needed", its.pool)
    if its.module_names:
        count = len(its.module_names)
        require_each("module", "row", its.module < count, f"{count} modules have names", its.module)
    _require_sizes(its.size)
    _require_order(its, requests)
    _require_segments(its.segments, rows)
    begins = its.iteration_rows
    if begins.ndim != 1:
        raise InstanceError(f"field iteration_rows: one dimension is needed, found {begins.ndim}")
    inside = (begins >= 0) & (begins <= rows)
    require_each("iteration_rows", "entry", inside, f"a row up to {rows} is needed", begins)


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


def _require_sizes(size: IntColumn) -> None:
    require_each("size", "request", size > 0, "a request is for 1 byte or more", size)
    # Ensures that no later sum overflows; the floating-point sum is off by far less than the
    # margin.
    total = size.sum(dtype=np.float64)
    if total > MAX_TOTAL_BYTES:
        raise InstanceError(
            f"field size: all requests together must stay below 2**61 bytes, found {total:.4g}"
        )


def _require_order(its: RequestSequence, requests: int) -> None:
    """Raise unless requests are made in the order of their numbers, and each ends at most once."""
    action, request = its.action, its.request
    known = (action >= 0) & (action < len(RequestAction))
    require_each("action", "row", known, f"0 to {len(RequestAction) - 1} is needed", action)
    gives_back = action == RequestAction.GIVE_BACK
    inside = (request >= 0) & (request < np.where(gives_back, 1, requests))
    rule = f"one of {requests} requests is needed, 0 where an action has none"
    require_each("request", "row", inside, rule, request)
    made = np.flatnonzero(action == RequestAction.ALLOCATE)
    if not np.array_equal(request[made], np.arange(requests)):
        raise InstanceError(
            f"field request: {requests} requests are made once each, in the order of their "
            f"numbers, found {request[made][:10].tolist()} first"
        )
    # The row of the last event of each request.
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
    rule = f"a row up to {rows} is needed, and 0 or 1 for what is mapped"
    require_each("segments", "entry", right, rule, segments[:, :2], " and ".join)
