"""The allocation trace: every request of a run to its allocator, by phase, module and iteration."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planners.errors import InstanceError
from planners.model.columns import (
    BoolColumn,
    IntColumn,
    frozen_column,
    frozen_names,
    frozen_rows,
)
from planners.model.problem import Scalar
from planners.model.rules import MAX_TENSORS
from planners.text.plain_text import shown

SEGMENT_KINDS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap")
# The field of an origin with the lines that an answer says about a trace.
NOTES = "notes"
NO_MODULE = -1
ROLE_FIELDS = ("role", "element_bytes")
# The columns with an entry for each request.
REQUEST_FIELDS = (
    "size", "alloc", "free_requested", "freed", "stream", "pool", "capture", "address", "before",
    "is_marker", "alloc_module", "free_module", *ROLE_FIELDS,
)  # fmt: skip
MARK_FIELDS = ("mark_event", "mark_phase", "mark_microbatch", "mark_iteration")

IntValues = Iterable[int] | NDArray[np.integer]


class Phase(enum.IntEnum):
    """Part of a training iteration that begins at a mark."""

    FORWARD = 0
    BACKWARD = 1
    OPTIMIZER = 2


class Role(enum.IntEnum):
    """The part that a block has in the step of an optimizer."""

    NONE = 0
    # The gradient of a parameter that the optimizer updates.
    GRADIENT = 1
    # A state that the optimizer keeps from step to step.
    STATE = 2
    # Allocated within the optimizer's step, and no state.
    UPDATE = 3


@dataclass(frozen=True, eq=False, init=False)
class AllocationTrace:
    """Requests to an allocator, in the order in which they were made.

    The trace is immutable and validated here. Time is counted in events: an allocation, a requested
    free, a completed free, a change of a segment, or the beginning of a phase. Only the order of
    events matters; several columns may name the same event.
    """

    # Events are numbered from 0 to ``event_count - 1``.
    event_count: int
    # int64 bytes as requested, at least 0.
    size: IntColumn
    # int64 event of each request's allocation, ascending; 0 for requests in `before`.
    alloc: IntColumn
    # int64 event at which the program freed the block; ``event_count`` if it never did.
    free_requested: IntColumn
    # int64 event at which the free completed on the device, not before `free_requested`;
    # ``event_count`` if it never did. Both frees come after `alloc`, but a block in `before` may be
    # freed at event 0.
    freed: IntColumn
    # int64 handle of the requesting stream; 0, the default stream, by default.
    stream: IntColumn
    # int64 number of the private pool of each request; 0, the common pool, by default.
    pool: IntColumn
    # int64 number, from 1, of the capture of a graph in which each request was made; 0 for none.
    capture: IntColumn
    # int64 device address of the block; 0 by default.
    address: IntColumn
    # True if the block was there when the trace began.
    before: BoolColumn
    # True if a request only marks the beginning of a phase, and no kernel uses its bytes.
    is_marker: BoolColumn
    # int64 index into `module_names` of the modules in which a block was allocated and freed;
    # -1 for none.
    alloc_module: IntColumn
    free_module: IntColumn
    # int64 :class:`Role` of each block; NONE by default.
    role: IntColumn
    # int64 bytes of each element of a state that has an element for each of its parameter's; 0 for
    # every other block.
    element_bytes: IntColumn
    # Names, outermost module first, parts separated by dots.
    module_names: tuple[str, ...]
    # int64, one entry a phase: the event at which it begins, ascending, its :class:`Phase`, and the
    # numbers of its microbatch and iteration, from 0.
    mark_event: IntColumn
    mark_phase: IntColumn
    mark_microbatch: IntColumn
    mark_iteration: IntColumn
    # Rows ``(event, kind, address, size, stream)`` of the allocator's own requests to the device;
    # ``kind`` is an index into :data:`SEGMENT_KINDS`. Where a program that is traced without a GPU
    # gives idle memory back, the row has the number of the pool as address, and 0 bytes.
    segments: IntColumn
    name: str
    origin: Mapping[str, Scalar]

    def __init__(
        self,
        event_count: int,
        size: IntValues,
        alloc: IntValues,
        free_requested: IntValues,
        freed: IntValues,
        *,
        stream: IntValues | None = None,
        pool: IntValues | None = None,
        capture: IntValues | None = None,
        address: IntValues | None = None,
        before: Iterable[bool] | BoolColumn | None = None,
        is_marker: Iterable[bool] | BoolColumn | None = None,
        alloc_module: IntValues | None = None,
        free_module: IntValues | None = None,
        role: IntValues | None = None,
        element_bytes: IntValues | None = None,
        module_names: Sequence[str] = (),
        mark_event: IntValues = (),
        mark_phase: IntValues = (),
        mark_microbatch: IntValues = (),
        mark_iteration: IntValues = (),
        segments: Iterable[Sequence[int]] | IntColumn = (),
        name: str = "trace",
        origin: Mapping[str, Scalar] | None = None,
    ) -> None:
        def put(field: str, value: object) -> None:
            object.__setattr__(self, field, value)

        put("event_count", int(event_count))
        put("size", frozen_column("size", size, "request"))
        for field, values, default in (
            ("alloc", alloc, 0),
            ("free_requested", free_requested, 0),
            ("freed", freed, 0),
            ("stream", stream, 0),
            ("pool", pool, 0),
            ("capture", capture, 0),
            ("address", address, 0),
            ("alloc_module", alloc_module, NO_MODULE),
            ("free_module", free_module, NO_MODULE),
            ("role", role, Role.NONE),
            ("element_bytes", element_bytes, 0),
        ):
            put(field, self._column(field, values, default))
        put("before", self._flags("before", before))
        put("is_marker", self._flags("is_marker", is_marker))
        put("module_names", frozen_names("module_names", module_names, entry="module"))
        marks = (mark_event, mark_phase, mark_microbatch, mark_iteration)
        for field, values in zip(MARK_FIELDS, marks, strict=True):
            put(field, frozen_column(field, values, "mark"))
        put("segments", frozen_rows("segments", segments, width=5))
        put("name", name)
        put("origin", dict(origin or {}))
        self._validate()

    @property
    def request_count(self) -> int:
        """Number of requests."""
        return len(self.size)

    @cached_property
    def iterations(self) -> IntColumn:
        """Numbers of the iterations that begin within the trace, ascending; not always from 0."""
        return np.unique(self.mark_iteration)

    @property
    def iteration_begins(self) -> IntColumn:
        """The event at which each iteration begins."""
        return self.mark_event[np.searchsorted(self.mark_iteration, self.iterations)]

    @property
    def iteration_count(self) -> int:
        """Number of iterations that begin within the trace; 0 without marks."""
        return len(self.iterations)

    def module_of(self, request: int) -> str:
        """Return the name of the module in which a block was allocated; empty for none."""
        module = int(self.alloc_module[request])
        return "" if module == NO_MODULE else self.module_names[module]

    def of_requests(self, chosen: IntColumn, size: IntColumn) -> AllocationTrace:
        """Return the trace of some requests, by their indices, with other sizes.

        Indices ascend. A request that is chosen twice becomes two that live equally long.
        """
        return AllocationTrace(
            self.event_count,
            size,
            module_names=self.module_names,
            **{field: getattr(self, field)[chosen] for field in REQUEST_FIELDS[1:]},
            **{field: getattr(self, field) for field in MARK_FIELDS},
            segments=self.segments,
            name=self.name,
            origin=self.origin,
        )

    def _column(self, field: str, values: IntValues | None, default: int) -> IntColumn:
        if values is None:
            values = np.full(self.request_count, default, dtype=np.int64)
        column = frozen_column(field, values, "request")
        self._require_length(field, len(column))
        return column

    def _flags(self, field: str, values: Iterable[bool] | BoolColumn | None) -> BoolColumn:
        flags = np.array(
            np.zeros(self.request_count) if values is None else list(values), dtype=np.bool_
        )
        self._require_length(field, len(flags))
        flags.setflags(write=False)
        return flags

    def _require_length(self, field: str, found: int) -> None:
        if found != self.request_count:
            raise InstanceError(
                f"field {field}: one entry a request is needed, found {found} for "
                f"{self.request_count} requests of field size"
            )

    def _validate(self) -> None:
        if self.request_count > MAX_TENSORS:
            raise InstanceError(
                f"field size: at most {MAX_TENSORS} requests, found {self.request_count}"
            )
        self._require("size", self.size >= 0, "bytes are at least 0")
        self._require("address", self.address >= 0, "addresses are at least 0")
        self._require("stream", self.stream >= 0, "handles of streams are at least 0")
        self._require("pool", self.pool >= 0, "numbers of pools are at least 0")
        self._require("capture", self.capture >= 0, "numbers of captures are at least 0")
        known = (self.role >= 0) & (self.role < len(Role))
        self._require("role", known, f"a role from 0 to {len(Role) - 1}")
        self._require("element_bytes", self.element_bytes >= 0, "bytes are at least 0")
        self._validate_times()
        self._validate_modules()
        self._validate_marks()
        kind = self.segments[:, 1]
        for row in np.flatnonzero((kind < 0) | (kind >= len(SEGMENT_KINDS)))[:1].tolist():
            raise InstanceError(
                f"field segments, row {row}: a kind from 0 to {len(SEGMENT_KINDS) - 1} is needed, "
                f"found {kind[row]}"
            )

    def _require(self, field: str, right: BoolColumn, rule: str) -> None:
        for request in np.flatnonzero(~right)[:1].tolist():
            raise InstanceError(
                f"field {field}, request {request}: {rule}, found {getattr(self, field)[request]}"
            )

    def _validate_times(self) -> None:
        never = self.event_count
        self._require("alloc", (self.alloc >= 0) & (self.alloc < never), f"an event below {never}")
        ascending = np.diff(self.alloc, prepend=0) >= 0
        self._require("alloc", ascending, "requests are in the order of their allocation")
        # A block from before the trace may be freed by the very first event.
        requested = (self.free_requested > self.alloc) | self.before & (self.free_requested >= 0)
        requested &= self.free_requested <= never
        self._require("free_requested", requested, f"an event after the allocation, up to {never}")
        done = (self.freed >= self.free_requested) & (self.freed <= never)
        self._require("freed", done, f"no event before free_requested and none above {never}")

    def _validate_modules(self) -> None:
        for field in ("alloc_module", "free_module"):
            module = getattr(self, field)
            known = (module >= NO_MODULE) & (module < len(self.module_names))
            self._require(field, known, f"-1 or below {len(self.module_names)}, the module_names")

    def _validate_marks(self) -> None:
        marks = len(self.mark_event)
        for field in MARK_FIELDS[1:]:
            if (found := len(getattr(self, field))) != marks:
                raise InstanceError(
                    f"field {field}: one entry a mark is needed, found {found} for {marks} of "
                    f"mark_event"
                )
        wrong = (np.diff(self.mark_event, prepend=0) < 0) | (self.mark_event > self.event_count)
        wrong |= (self.mark_phase < 0) | (self.mark_phase >= len(Phase))
        wrong |= (self.mark_microbatch < 0) | (np.diff(self.mark_iteration, prepend=0) < 0)
        for mark in np.flatnonzero(wrong)[:1].tolist():
            raise InstanceError(
                f"mark {mark}: events up to {self.event_count} and iterations ascend from 0, "
                f"phases are 0 to {len(Phase) - 1}, microbatches at least 0, found event "
                f"{self.mark_event[mark]}, phase {self.mark_phase[mark]}, microbatch "
                f"{self.mark_microbatch[mark]}, iteration {self.mark_iteration[mark]}"
            )


def iteration_window(trace: AllocationTrace, iteration: int) -> tuple[int, int]:
    """Return the events of an iteration, half-open; -1 is the last iteration.

    The iteration lasts from its first mark to the first mark of the next, or to the trace's end.
    """
    number = resolve_iteration(trace, iteration)
    begin = int(trace.mark_event[np.searchsorted(trace.mark_iteration, number)])
    after = int(np.searchsorted(trace.mark_iteration, number, side="right"))
    is_last = after == len(trace.mark_event)
    return begin, trace.event_count if is_last else int(trace.mark_event[after])


def resolve_iteration(trace: AllocationTrace, iteration: int) -> int:
    """Return the number of an iteration; negative numbers count from the end."""
    there = trace.iterations
    if not len(there):
        raise InstanceError(
            "the trace marks no phases, so its iterations are not known; take the whole trace"
        )
    if -len(there) <= iteration < 0:
        return int(there[iteration])
    if iteration not in there:
        without_gaps = there[-1] - there[0] == len(there) - 1
        known = f"{there[0]} to {there[-1]}" if without_gaps else shown(there.tolist())
        raise InstanceError(
            f"iteration {iteration}: the trace has the iterations {known} (or -1 for the last, -2 "
            f"for the one before)"
        )
    return iteration


def persistent_requests(trace: AllocationTrace, iteration: int) -> BoolColumn:
    """Return for each request whether its block was there before an iteration and outlived it."""
    begin, end = iteration_window(trace, iteration)
    persistent: BoolColumn = ((trace.alloc < begin) | trace.before) & (trace.freed >= end)
    return persistent


def iteration_phases(trace: AllocationTrace, iteration: int) -> list[IntColumn]:
    """Return the requests that each phase of an iteration allocates, without markers."""
    number = resolve_iteration(trace, iteration)
    begins = trace.mark_event[trace.mark_iteration == number]
    bounds = [*begins.tolist(), iteration_window(trace, number)[1]]
    first = np.searchsorted(trace.alloc, bounds)
    asked = [np.arange(a, b) for a, b in pairwise(first.tolist())]
    return [requests[~trace.is_marker[requests] & ~trace.before[requests]] for requests in asked]
