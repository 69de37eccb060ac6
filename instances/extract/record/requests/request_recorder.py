"""Requests to an allocator as they happen: allocations, frees, phases, modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from instances.traces.allocation_trace import (
    NO_MODULE,
    SEGMENT_KINDS,
    AllocationTrace,
    Phase,
    Role,
)
from instances.traces.event_log import number_phases
from planners.model.problem import Scalar

NEVER = -1
DEFAULT_STREAM = 0
COMMON_POOL = 0
# PyTorch's blocks begin at multiples of it.
BLOCK_BYTES = 512
EMPTIED = SEGMENT_KINDS.index("segment_free")


@dataclass
class AllocatorRequest:
    """A request that is being recorded; events are numbered from 0, :data:`NEVER` is none."""

    size: int
    alloc: int
    alloc_module: int
    # Stands for the place of the block on the GPU.
    address: int = 0
    free_requested: int = NEVER
    freed: int = NEVER
    free_module: int = NO_MODULE
    stream: int = DEFAULT_STREAM
    # The private pool, and the number of the capture of a graph; 0 for none.
    pool: int = COMMON_POOL
    capture: int = 0
    # True if another stream may use the block until the host waits for the device.
    is_shared: bool = False
    role: Role = Role.NONE
    # Bytes of an element, if a state has one for each element of its parameter.
    element_bytes: int = 0


@dataclass
class RequestRecorder:
    """Collects the requests of a run in the order in which they are made.

    A free takes two events, as on a device: the program requests it, then it is complete. Nothing
    lies between them, unless the program said that another stream uses the block
    (``record_stream``). Such a free is complete when the host has waited for the device, at the end
    of the step at the latest. PyTorch may be earlier, as it asks the device.

    Blocks that are freed between two allocations are recorded in the order of their allocations. No
    peak depends on that order, and the true one differs from run to run if a hash table frees them,
    as at the end of autocast.
    """

    current_module: Callable[[], str] = lambda: ""
    current_stream: Callable[[], int] = lambda: DEFAULT_STREAM
    requests: list[AllocatorRequest] = field(default_factory=list)
    # The number of the running capture, 0 for none, and its pool.
    capture: int = 0
    pool: int = COMMON_POOL
    # The pools that no graph uses any more.
    unused_pools: set[int] = field(default_factory=set)
    _module_index: dict[str, int] = field(default_factory=dict)
    _marks: list[tuple[int, Phase]] = field(default_factory=list)
    _given_back: list[AllocatorRequest] = field(default_factory=list)
    _in_use: list[AllocatorRequest] = field(default_factory=list)
    # Events at which idle memory went back, and its pool.
    _emptied: list[tuple[int, int]] = field(default_factory=list)
    _events: int = 0
    _places: Iterator[int] = field(default_factory=lambda: count(BLOCK_BYTES, BLOCK_BYTES))

    @property
    def event_count(self) -> int:
        """The number of recorded events, without frees that wait for the next request."""
        return self._events

    def allocate(self, size: int) -> AllocatorRequest:
        """Record an allocation."""
        self._tell_frees()
        request = AllocatorRequest(size, self._event(), self._module(), next(self._places))
        request.stream = self.current_stream()
        request.pool, request.capture = self.pool, self.capture
        self.requests.append(request)
        return request

    def take_again(self, request: AllocatorRequest) -> AllocatorRequest:
        """Record that a block that was freed is taken again, outside of a capture."""
        self._tell_frees()
        again = replace(request, alloc=self._event(), free_requested=NEVER, freed=NEVER, capture=0)
        self.requests.append(again)
        return again

    def live_in(self, pool: int) -> list[AllocatorRequest]:
        """Return the blocks of a pool that are not freed."""
        self._tell_frees()
        return [one for one in self.requests if one.pool == pool and one.free_requested == NEVER]

    def free(self, request: AllocatorRequest) -> None:
        """Record that a block is given back."""
        request.free_module = self._module()
        self._given_back.append(request)

    def device_is_done(self) -> None:
        """Record that the host has waited until the device was done with all its work."""
        self._tell_frees()
        for request in self._in_use:
            request.freed = self._event()
        self._in_use.clear()

    def enter_pool(self, pool: int, capture: int = 0) -> None:
        """Record that from now on requests come to a pool, in the capture of this number if any."""
        self._tell_frees()
        self.pool, self.capture = pool, capture
        self.unused_pools.discard(pool)

    def give_back(self) -> None:
        """Record that idle memory goes back to the device: of the common and of unused pools."""
        self.device_is_done()
        pools = (COMMON_POOL, *sorted(self.unused_pools))
        self._emptied += [(self._event(), pool) for pool in pools]

    def forget_phases(self) -> None:
        """Forget the phases so far: they do not belong to a step."""
        self._marks.clear()

    def take_back_last(self) -> None:
        """Forget the latest request: it was answered with a block that its maker held already."""
        taken_back = self.requests.pop()
        # Frees wait for the next request, so the event of this allocation is the latest.
        assert taken_back.alloc == self._events - 1
        self._events -= 1

    def begin(self, phase: Phase) -> None:
        """Record that a phase begins; a forward pass after the optimizer begins an iteration."""
        self._tell_frees()
        self._marks.append((self._event(), phase))

    def trace(self, name: str, origin: Mapping[str, Scalar]) -> AllocationTrace:
        """Return the recorded requests, without addresses."""
        self._tell_frees()
        count = max(self._events, 1)

        def events(column: str) -> list[int]:
            found = [getattr(request, column) for request in self.requests]
            return [count if event == NEVER else event for event in found]

        phases = [phase for _, phase in self._marks]
        microbatch, iteration = number_phases(phases)
        return AllocationTrace(
            count,
            [request.size for request in self.requests],
            [request.alloc for request in self.requests],
            events("free_requested"),
            events("freed"),
            stream=[request.stream for request in self.requests],
            pool=[request.pool for request in self.requests],
            capture=[request.capture for request in self.requests],
            address=self._addresses(),
            alloc_module=[request.alloc_module for request in self.requests],
            free_module=[request.free_module for request in self.requests],
            role=[request.role for request in self.requests],
            element_bytes=[request.element_bytes for request in self.requests],
            module_names=list(self._module_index),
            mark_event=[event for event, _ in self._marks],
            mark_phase=[int(phase) for phase in phases],
            mark_microbatch=microbatch,
            mark_iteration=iteration,
            segments=[(event, EMPTIED, pool, 0, DEFAULT_STREAM) for event, pool in self._emptied],
            name=name,
            origin=origin,
        )

    def _tell_frees(self) -> None:
        for request in sorted(self._given_back, key=lambda request: request.alloc):
            request.free_requested = self._event()
            if request.is_shared:
                self._in_use.append(request)
            else:
                request.freed = self._event()
        self._given_back.clear()

    def _addresses(self) -> list[int]:
        """Return one address for each request, so that a log of events can tell them apart."""
        return list(range(1, len(self.requests) + 1))

    def _event(self) -> int:
        self._events += 1
        return self._events - 1

    def _module(self) -> int:
        name = self.current_module()
        return self._module_index.setdefault(name, len(self._module_index)) if name else NO_MODULE
