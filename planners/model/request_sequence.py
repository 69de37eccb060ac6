"""The requests of a run in their order: what an online allocator is asked."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from planners.errors import InstanceError
from planners.model.columns import IntColumn
from planners.model.problem import Problem, Safety
from planners.model.request_action import NOWHERE as NOWHERE
from planners.model.request_action import RequestAction as RequestAction
from planners.model.request_rules import require_request_rules


@dataclass(frozen=True, eq=False)
class RequestSequence:
    """Requests for memory and their ends, row by row.

    Requests are numbered in the order in which they are made, and none is for 0 bytes.
    """

    name: str
    # One entry a row: a :class:`RequestAction`, the number of the request, 0 where there is none,
    # and the event of the recording that the row stands for.
    action: IntColumn
    request: IntColumn
    event: IntColumn
    # One entry a request: bytes, and handle of the stream that asked.
    size: IntColumn
    stream: IntColumn
    # Whether a recorded run asked for this, and not the steps of an instance.
    is_recorded: bool = False
    # Of a recorded run: where each request was served.
    address: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    # Of a recorded run: rows ``(row, is_mapped, address, bytes, stream)`` of the memory that came
    # from the device, each with the row of the request that it came for; whether it was mapped
    # into an expandable segment.
    segments: IntColumn = field(default_factory=lambda: np.empty((0, 5), dtype=np.int64))
    # The rows at which iterations begin, where something marks them.
    iteration_rows: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    # One entry a row, or none: the number of the computation phase within its iteration, -1 before
    # the first; and the index into `module_names` of the module in which the row happens, -1 for
    # none.
    phase: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    module: IntColumn = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    module_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_request_rules(self)

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return len(self.action)

    @property
    def request_count(self) -> int:
        """Number of requests."""
        return len(self.size)

    @property
    def last_iteration_row(self) -> int:
        """The row at which the last iteration begins; the first where nothing marks any."""
        return int(self.iteration_rows.max(initial=0))

    @property
    def allocation_rows(self) -> IntColumn:
        """The row at which each request is made."""
        return np.flatnonzero(self.action == RequestAction.ALLOCATE)

    @property
    def completion_rows(self) -> IntColumn:
        """The row at which the block of each request is free; the number of rows where never."""
        completed = np.flatnonzero(self.action == RequestAction.FREE_COMPLETED)
        rows = np.full(self.request_count, self.row_count, dtype=np.int64)
        rows[self.request[completed]] = completed
        return rows

    def of_rows(self, column: IntColumn) -> IntColumn:
        """Return the entry that each row's request has in a column; 0 where memory goes back."""
        is_none = self.action == RequestAction.GIVE_BACK
        entries: IntColumn = np.append(column, 0)[np.where(is_none, len(column), self.request)]
        return entries

    def live_bytes(self, size: IntColumn) -> IntColumn:
        """Return the bytes of requests that are not freed after each row; `size` has one each."""
        change = np.zeros(self.row_count, dtype=np.int64)
        change[self.allocation_rows] = size
        ends = (RequestAction.FREE_REQUESTED, RequestAction.FREE_COMPLETED)
        frees = np.flatnonzero(np.isin(self.action, ends))
        _, first = np.unique(self.request[frees], return_index=True)
        change[frees[first]] = -size[self.request[frees[first]]]
        live: IntColumn = np.cumsum(change)
        return live

    def live_after(self, rows: int) -> NDArray[np.int64]:
        """Return the requests of the first rows whose end is not among these."""
        requests = self.request[:rows]
        begun = requests[self.action[:rows] == RequestAction.ALLOCATE]
        ended = requests[self.action[:rows] == RequestAction.FREE_COMPLETED]
        return np.setdiff1d(begun, ended, assume_unique=True)


def requests_of_problem(problem: Problem) -> RequestSequence:
    """Return what an instance asks for: each tensor at its first step, in their order, to its last.

    What ends at a step is freed before anything is asked for there. The stream is the one of the
    producer, 0 where none is given. Gaps, chains and given offsets are of no concern to an
    allocator that knows nothing ahead.
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
    # Ends stand first, so that at one step they come first.
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
    """Return where each row happens, of columns that tell of tensors; none where they do not."""
    if begin is None or end is None:
        return np.empty(0, dtype=np.int64)
    places: IntColumn = np.concatenate([end[asked], begin[asked]])[order]
    return np.maximum(places, NOWHERE)
