"""Planned memory over the requests of a run."""

from __future__ import annotations

import time
import warnings

import numpy as np

from gpu_runtime._core import LedgerMemory, PlannedAllocator
from gpu_runtime.allocator.book_planner import BookPlanner
from gpu_runtime.replaying.replay_device import ReplayDevice, open_replay_device
from planners.errors import DeviceError
from planners.model.budget import Budget
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.request_sequence import RequestAction, RequestSequence
from planners.registry import choose_one

# Of the replay's own, one a request: at work in its block from its free until that is complete.
FIRST_SIDE_STREAM = 1 << 62
STEP_LABEL = 0


def replay_planned(
    requests: RequestSequence, terms: OnlineTerms, planner: str, time_limit: float
) -> OnlineResult:
    """Make the requests to planned memory, each iteration a step.

    A plan is made between two steps, where the run waits for it; that takes no time of the
    allocator's. Requests before the first iteration are outside of steps, as all are where nothing
    marks iterations.
    """
    chosen = choose_one(planner)
    device = open_replay_device(requests, terms)
    allocator = PlannedAllocator(device.served)
    served = _PlannedRun(requests, device, allocator, has_series=terms.has_series)
    book_planner = BookPlanner(
        allocator, chosen, Budget(time_limit_seconds=time_limit), planning="between"
    )
    try:
        with warnings.catch_warnings():
            # That a plan is not worth it is no news here: the figures show it.
            warnings.simplefilter("ignore", RuntimeWarning)
            served.run(book_planner)
    except OSError as error:
        raise DeviceError(f"device {terms.device}: {error}") from None
    figures, calls, seconds = allocator.figures(), device.calls, device.seconds
    segments = device.logged.rows()
    if not isinstance(device.memory, LedgerMemory):
        served.return_memory()
    device.require_apart(requests)
    return OnlineResult(
        requested_peak=figures.requested_peak,
        allocated_peak=figures.allocated_peak,
        reserved_peak=figures.reserved_peak,
        device_calls=calls,
        seconds=served.seconds,
        device_seconds=seconds,
        last_iteration_seconds=served.last_iteration_seconds,
        out_of_memory_row=served.out_of_memory_row,
        reserved=np.array(served.reserved, dtype=np.int64),
        allocated=np.array(served.allocated, dtype=np.int64),
        addresses=np.array(served.address, dtype=np.int64),
        segments=segments[:, [2, 0, 1]],
    )


class _PlannedRun:
    """The rows as calls, and what was seen meanwhile."""

    def __init__(
        self,
        requests: RequestSequence,
        device: ReplayDevice,
        allocator: PlannedAllocator,
        *,
        has_series: bool,
    ) -> None:
        self.address = [0] * requests.request_count
        self.reserved: list[int] = []
        self.allocated: list[int] = []
        self.out_of_memory_row: int | None = None
        self._requests = requests
        self._device = device
        self._allocator = allocator
        self._stamps = device.stamps
        self._has_series = has_series
        self._nanoseconds = 0
        # Until the last iteration began.
        self._early_nanoseconds = 0
        self._size = requests.size.tolist()
        self._stream = requests.stream.tolist()
        # Requests that are freed and not complete.
        self._pending: set[int] = set()

    @property
    def seconds(self) -> float:
        """Time in the calls of requests and frees."""
        return self._nanoseconds / 1e9

    @property
    def last_iteration_seconds(self) -> float:
        """Of these, from the begin of the last iteration on; 0 where it did not come to its end."""
        if self.out_of_memory_row is not None:
            return 0.0
        return (self._nanoseconds - self._early_nanoseconds) / 1e9

    def run(self, book_planner: BookPlanner) -> None:
        """Serve all rows, or those until the device has no memory."""
        begins = set(self._requests.iteration_rows.tolist())
        in_step = False
        rows = zip(self._requests.action.tolist(), self._requests.request.tolist(), strict=True)
        for row, (action, request) in enumerate(rows):
            if row in begins:
                taken = self._device.total_nanoseconds
                if in_step:
                    book_planner.end_step(completed=True)
                book_planner.begin_step(STEP_LABEL)
                in_step = True
                # Making a plan takes none of the allocator's time; its memory does.
                self._nanoseconds += self._device.total_nanoseconds - taken
            if row == self._requests.last_iteration_row:
                self._early_nanoseconds = self._nanoseconds
            begun = time.perf_counter_ns()
            try:
                self._take(action, request)
            except MemoryError:
                self.out_of_memory_row = row
                break
            finally:
                self._nanoseconds += time.perf_counter_ns() - begun
            self._look(row)
        if in_step:
            book_planner.end_step(completed=self.out_of_memory_row is None)
        if self._stamps is not None:
            self._stamps.take_back_all()

    def return_memory(self) -> None:
        """Give all memory back, which the next allocator needs."""
        ended = self.out_of_memory_row
        rows = self._requests.row_count if ended is None else ended
        for request in self._requests.live_after(rows).tolist():
            self._allocator.free(self.address[request])
        self._allocator.drop_book()
        self._allocator.give_back()

    def _take(self, action: int, request: int) -> None:
        if action == RequestAction.ALLOCATE:
            size = self._size[request]
            self.address[request] = self._allocator.allocate(size, self._stream[request])
            if self._stamps is not None:
                self._stamps.hand_out(request, self.address[request], size)
        elif action == RequestAction.GIVE_BACK:
            self._allocator.give_back()
        elif action == RequestAction.FREE_REQUESTED:
            self._free_later(request)
        elif request in self._pending:
            self._pending.remove(request)
            self._device.end_work(FIRST_SIDE_STREAM + request)
            self._take_back(request)
        else:
            self._take_back(request)
            self._allocator.free(self.address[request])

    def _take_back(self, request: int) -> None:
        if self._stamps is not None:
            self._stamps.take_back(request)

    def _free_later(self, request: int) -> None:
        """Let a stream work in the block until its free is complete."""
        stream, address = FIRST_SIDE_STREAM + request, self.address[request]
        self._pending.add(request)
        self._device.begin_work(stream, address, self._size[request])
        self._allocator.use_on(address, stream)
        if self._stamps is not None:
            self._stamps.take_back_after(request, stream)
        self._allocator.free(address)

    def _look(self, row: int) -> None:
        """Hold the sums against each other: what is beside a request is rounding or free."""
        figures = self._allocator.figures()
        internal = figures.allocated_bytes - figures.requested_bytes
        external = figures.reserved_bytes - figures.allocated_bytes
        if internal < 0 or external < 0:
            raise ArithmeticError(
                f"row {row}: reserved bytes are those of requests, of rounding and free ones, "
                f"found {internal} by rounding and {external} free"
            )
        if self._has_series:
            self.reserved.append(figures.reserved_bytes)
            self.allocated.append(figures.allocated_bytes)
