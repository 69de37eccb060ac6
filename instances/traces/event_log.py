"""From the events of an allocator to requests, microbatches and iterations, and back to events."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from instances.traces.allocation_trace import (
    NO_MODULE,
    SEGMENT_KINDS,
    AllocationTrace,
    Phase,
)
from planners.errors import InstanceError
from planners.model.columns import IntColumn
from planners.model.problem import Scalar

NOTHING = -1
# PyTorch's name of the common pool, which serves all requests outside of private pools.
COMMON_POOL = (0, 0)
ALLOC, FREE_REQUESTED, FREE_COMPLETED = range(3)
FIRST_SEGMENT_KIND = 3
EVENTS_AT_ONCE = 1 << 14
EVENT_KINDS = ("alloc", "free_requested", "free_completed", *SEGMENT_KINDS)
REQUEST_COLUMNS = (
    "size", "alloc", "free_requested", "freed", "stream", "pool", "address", "before",
    "alloc_module", "free_module",
)  # fmt: skip

# A recording marks a phase by a request of an odd size that is freed at once, because PyTorch's
# allocator knows no phases.
MARKER_BYTES = {101: Phase.FORWARD, 103: Phase.BACKWARD, 105: Phase.OPTIMIZER}


@dataclass(frozen=True)
class EventLog:
    """Events of an allocator, in the order in which they happened, one array entry an event."""

    # Index into :data:`EVENT_KINDS`; -1 for any other event, such as the beginning of a phase.
    kind: NDArray[np.integer]
    # Address and bytes of the block or the segment; bytes of a block as requested.
    address: NDArray[np.integer]
    size: NDArray[np.integer]
    stream: NDArray[np.integer]
    # Index of the module in which the event happened, -1 for none; empty if modules are unknown.
    module: NDArray[np.integer] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    # Number of the private pool of an allocation, 0 for the common one; empty if all are common.
    pool: NDArray[np.integer] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    # Blocks from before the log, which count as of the common pool: address to (bytes, stream). A
    # block that the log frees without having allocated it need not be named here.
    before: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Marks:
    """The phases of a run: the event at which each begins, its kind and its numbers."""

    event: Sequence[int] | IntColumn
    phase: Sequence[int] | IntColumn
    microbatch: Sequence[int] | IntColumn
    iteration: Sequence[int] | IntColumn


def trace_of_events(
    log: EventLog,
    *,
    marks: Marks | None = None,
    module_names: Sequence[str] = (),
    told: Mapping[str, IntColumn] | None = None,
    name: str = "trace",
    origin: Mapping[str, Scalar] | None = None,
) -> AllocationTrace:
    """Return the requests of a log of events.

    A block that is freed without an allocation was there before the log began. A free that
    completes without a request, as in logs with one kind of free, was requested at its completion.
    By default phases begin at allocations of :data:`MARKER_BYTES` that the next event frees.
    `told` are columns that no log has, such as `role`, in the order of the requests. Raises
    ``InstanceError`` if an address is allocated while in use, or freed while not in use.
    """
    requests = _Requests(max(len(log.kind), 1))
    for address, (size, stream) in log.before.items():
        requests.there_before(address, size, stream)
    for event, (kind, address, size, stream, module, pool) in enumerate(_rows(log)):
        if kind == ALLOC:
            requests.allocate(event, address, size, stream, module, pool)
        elif kind == FREE_REQUESTED:
            requests.request_free(event, address, size, stream, module)
        elif kind == FREE_COMPLETED:
            requests.complete_free(event, address, size, stream, module)
    return requests.trace(log, marks, module_names, told or {}, name, origin or {})


def _rows(log: EventLog) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Yield the events; only `EVENTS_AT_ONCE` of them are Python numbers at a time."""
    module = log.module if len(log.module) else np.broadcast_to(NO_MODULE, log.kind.shape)
    pool = log.pool if len(log.pool) else np.broadcast_to(0, log.kind.shape)
    columns = (log.kind, log.address, log.size, log.stream, module, pool)
    for begin in range(0, len(log.kind), EVENTS_AT_ONCE):
        piece = (column[begin : begin + EVENTS_AT_ONCE].tolist() for column in columns)
        yield from zip(*piece, strict=True)


class _Requests:
    """Columns of the requests, and the block that is at each address now."""

    def __init__(self, never: int) -> None:
        self.never = never
        self.at: dict[int, int] = {}
        self.seen: set[int] = set()
        self.columns = {name: array("q") for name in REQUEST_COLUMNS}
        self.alloc, self.freed = self.columns["alloc"], self.columns["freed"]
        self.free_requested = self.columns["free_requested"]
        self.free_module = self.columns["free_module"]

    def allocate(
        self, event: int, address: int, size: int, stream: int, module: int, pool: int
    ) -> None:
        if address in self.at:
            raise InstanceError(
                f"event {event}: an address is allocated once until it is freed, found "
                f"{address:#x} again, allocated at event {self.alloc[self.at[address]]}"
            )
        self._add(event, address, size, stream, module, pool, before=False)

    def there_before(self, address: int, size: int, stream: int) -> int:
        return self._add(0, address, size, stream, NO_MODULE, 0, before=True)

    def request_free(self, event: int, address: int, size: int, stream: int, module: int) -> None:
        request = self.at.get(address)
        if request is None:
            if address in self.seen:
                raise InstanceError(
                    f"event {event}: an address is freed once after its allocation, found "
                    f"{address:#x} freed again"
                )
            request = self.there_before(address, size, stream)
        self.free_requested[request] = min(self.free_requested[request], event)
        self.free_module[request] = module

    def complete_free(self, event: int, address: int, size: int, stream: int, module: int) -> None:
        if self.at.get(address) is None or self.free_requested[self.at[address]] == self.never:
            self.request_free(event, address, size, stream, module)
        self.freed[self.at.pop(address)] = event

    def _add(
        self,
        event: int,
        address: int,
        size: int,
        stream: int,
        module: int,
        pool: int,
        *,
        before: bool,
    ) -> int:
        request = len(self.alloc)
        self.at[address] = request
        self.seen.add(address)
        never = self.never
        row = (size, event, never, never, stream, pool, address, before, module, NO_MODULE)
        for column, value in zip(self.columns.values(), row, strict=True):
            column.append(value)
        return request

    def trace(
        self,
        log: EventLog,
        marks: Marks | None,
        module_names: Sequence[str],
        told: Mapping[str, IntColumn],
        name: str,
        origin: Mapping[str, Scalar],
    ) -> AllocationTrace:
        # A block from before the log is added when it is freed, but stands first, at event 0.
        order = np.argsort(-np.array(self.columns["before"], dtype=np.int64), kind="stable")
        columns = {
            name: np.array(column, dtype=np.int64)[order] for name, column in self.columns.items()
        }
        before = columns.pop("before").astype(np.bool_)
        is_marker = _find_markers(columns)
        if marks is None:
            marks = _marks_of_markers(columns, is_marker)
        else:
            is_marker &= np.isin(columns["alloc"], marks.event)
        segments = np.flatnonzero(log.kind >= FIRST_SEGMENT_KIND)
        kind, *rest = (
            column[segments].astype(np.int64)
            for column in (log.kind, log.address, log.size, log.stream)
        )
        return AllocationTrace(
            max(len(log.kind), 1),
            before=before,
            is_marker=is_marker,
            module_names=module_names,
            mark_event=marks.event,
            mark_phase=marks.phase,
            mark_microbatch=marks.microbatch,
            mark_iteration=marks.iteration,
            segments=np.column_stack([segments, kind - FIRST_SEGMENT_KIND, *rest]),
            name=name,
            origin=origin,
            **columns,
            **told,
        )


def _find_markers(columns: Mapping[str, IntColumn]) -> NDArray[np.bool_]:
    at_once = columns["free_requested"] == columns["alloc"] + 1
    is_marker: NDArray[np.bool_] = np.isin(columns["size"], list(MARKER_BYTES)) & at_once
    return is_marker


def _marks_of_markers(columns: Mapping[str, IntColumn], is_marker: NDArray[np.bool_]) -> Marks:
    phases = [MARKER_BYTES[size] for size in columns["size"][is_marker].tolist()]
    microbatch, iteration = number_phases(phases)
    return Marks(columns["alloc"][is_marker], [int(phase) for phase in phases], microbatch,
                 iteration)  # fmt: skip


def events_of_trace(trace: AllocationTrace) -> tuple[EventLog, Marks]:
    """Return the events of a trace, each with its own number, and the marks.

    Events that share a number in the trace get this order: changes of segments, requested frees,
    completed frees, allocations. A phase that begins at no other event is an event of its own.
    :func:`trace_of_events` makes the trace again, except for the numbers of events.
    """
    requests = np.arange(trace.request_count)
    requested = requests[trace.free_requested < trace.event_count]
    freed = requests[trace.freed < trace.event_count]
    allocated = requests[~trace.before]
    segments = trace.segments
    time = np.concatenate(
        [segments[:, 0], trace.free_requested[requested], trace.freed[freed],
         trace.alloc[allocated]]
    )  # fmt: skip
    silent = np.setdiff1d(trace.mark_event, time)
    time = np.concatenate([time, silent])
    order = np.argsort(time, kind="stable")

    def column(of_segments: IntColumn, *of_requests: IntColumn, of_marks: int = 0) -> IntColumn:
        return np.concatenate([of_segments, *of_requests, np.full(len(silent), of_marks)])[order]

    def per_request(values: IntColumn) -> tuple[IntColumn, IntColumn, IntColumn]:
        return values[requested], values[freed], values[allocated]

    log = EventLog(
        kind=column(
            segments[:, 1] + FIRST_SEGMENT_KIND,
            np.full(len(requested), FREE_REQUESTED),
            np.full(len(freed), FREE_COMPLETED),
            np.full(len(allocated), ALLOC),
            of_marks=NOTHING,
        ),
        address=column(segments[:, 2], *per_request(trace.address)),
        size=column(segments[:, 3], *per_request(trace.size)),
        stream=column(segments[:, 4], *per_request(trace.stream)),
        module=column(
            np.full(len(segments), NO_MODULE),
            trace.free_module[requested],
            trace.free_module[freed],
            trace.alloc_module[allocated],
            of_marks=NO_MODULE,
        ),
        pool=column(np.zeros(len(segments), dtype=np.int64), *per_request(trace.pool)),
        before={
            int(trace.address[request]): (int(trace.size[request]), int(trace.stream[request]))
            for request in requests[trace.before]
        },
    )
    begins = np.searchsorted(time[order], trace.mark_event)
    return log, Marks(begins, trace.mark_phase, trace.mark_microbatch, trace.mark_iteration)


def number_phases(phases: Sequence[Phase]) -> tuple[list[int], list[int]]:
    """Return the microbatch and the iteration of each phase of a run.

    An iteration ends before a forward pass that follows the optimizer. Within an iteration, the
    n-th forward and the n-th backward pass belong to the n-th microbatch; this holds for successive
    microbatches and for pipelines that keep their order. Both count from 0.
    """
    microbatches: list[int] = []
    iterations: list[int] = []
    iteration = 0
    seen = dict.fromkeys(Phase, 0)
    previous = Phase.FORWARD
    for phase in phases:
        if phase is Phase.FORWARD and previous is Phase.OPTIMIZER:
            iteration += 1
            seen = dict.fromkeys(Phase, 0)
        microbatches.append(seen[phase])
        iterations.append(iteration)
        seen[phase] += 1
        previous = phase
    return microbatches, iterations
