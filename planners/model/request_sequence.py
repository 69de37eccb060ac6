"""The requests of a run in their order: what an online allocator is asked."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from planners.errors import InstanceError
from planners.model.columns import IntColumn
from planners.model.problem import Problem, Safety


class RequestAction(enum.IntEnum):
    """What a row of a sequence tells of."""

    ALLOCATE = 0
    # Another stream may still be at work in the block.
    FREE_REQUESTED = 1
    # The block is free, whether that was requested before or is now.
    FREE_COMPLETED = 2
    # Idle memory went back to the device, because the program wanted it or memory was short.
    GIVE_BACK = 3


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
    )
