"""
The C++ core of the runtime: allocators over simulated and CUDA memory.

Any number of threads may call at once, and share objects. What a device refuses is an OSError,
what it has no memory for a MemoryError, a call at the wrong time a RuntimeError, and a plan that
breaks a rule a ValueError that names the rule.
"""

from collections.abc import Callable, Sequence
import enum
from typing import Annotated

import numpy
from numpy.typing import NDArray


class DeviceMemory:
    """What an allocator asks of a device."""

    @property
    def page_bytes(self) -> int: ...

class CudaMemory(DeviceMemory):
    """A CUDA device, by the driver."""

    def __init__(self, device: int) -> None: ...

    @property
    def capability(self) -> tuple[int, int]: ...

    def load_checks(self, image: bytes) -> None: ...

class Wait:
    """A stream that was made to wait for another."""

    @property
    def waiting(self) -> int: ...

    @property
    def awaited(self) -> int: ...

    @property
    def position(self) -> int: ...

class SimulatedMemory(DeviceMemory):
    """A device in the host's memory."""

    def __init__(self, page_bytes: int, capacity_bytes: int) -> None: ...

    def submit(self, stream: int, address: int = 0, bytes: int = 0) -> None: ...

    def finish(self, stream: int) -> None: ...

    def destroy_stream(self, stream: int) -> None: ...

    def set_captured(self, stream: int, is_captured: bool) -> None: ...

    @property
    def captured_work(self) -> int: ...

    def fail_after(self, calls: int, failures: int = 1) -> None: ...

    @property
    def created_bytes(self) -> int: ...

    @property
    def mapped_bytes(self) -> int: ...

    @property
    def reserved_ranges(self) -> int: ...

    @property
    def live_events(self) -> int: ...

    @property
    def calls(self) -> int: ...

    @property
    def waits(self) -> list[Wait]: ...

BLOCK_ALIGNMENT: int = 512

class MismatchKind(enum.Enum):
    """Why a request is not served by the plan."""

    SIZE = 0

    EXTRA = 1

    STREAM = 2

    IN_USE = 3

    GROWN = 4

class Mismatch:
    """A request that is not served by the plan."""

    @property
    def kind(self) -> MismatchKind: ...

    @property
    def step(self) -> int: ...

    @property
    def stream(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def request(self) -> int: ...

    @property
    def expected_bytes(self) -> int: ...

    @property
    def in_the_way(self) -> int: ...

    @property
    def number(self) -> int: ...

    @property
    def step_kind(self) -> int: ...

class KindPlan:
    """What one kind of step asks for, and where it best lies."""

    def __init__(self, label: int, stream: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], least: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], most: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], spare: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    @property
    def label(self) -> int: ...

    @property
    def handed_over(self) -> list[int]: ...

    @property
    def slot_count(self) -> int: ...

def with_hand_overs(kinds: Sequence[KindPlan], arena_bytes: int) -> list[KindPlan]:
    """
    Mark the requests whose bytes another stream gets next, in a step of any kind.
    """

NO_PLACE: int = -1

BETWEEN_STEPS: int = -1

FIRST_ROLE: int = 4611686018427387904

class Place:
    """Where a request best lies."""

    @property
    def kind(self) -> int: ...

    @property
    def slot(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def spare(self) -> int: ...

    @property
    def handed_over(self) -> bool: ...

    @property
    def mismatch(self) -> Mismatch | None: ...

class StepBook:
    """The kinds of step of a program; it predicts, and holds no memory."""

    def __init__(self, kinds: Sequence[KindPlan], arena_bytes: int) -> None: ...

    @property
    def arena_bytes(self) -> int: ...

    def begin_step(self, label: int) -> None: ...

    def request(self, stream: int, bytes: int) -> Place: ...

    def end_step(self) -> StepEnd: ...

class StepEnd:
    """How the requests of a step went."""

    @property
    def kind(self) -> int: ...

    @property
    def planned(self) -> int: ...

    @property
    def escaping(self) -> int: ...

    @property
    def grown(self) -> int: ...

    @property
    def unexpected(self) -> int: ...

    @property
    def missing(self) -> int: ...

    @property
    def in_use(self) -> int: ...

    @property
    def reserved_peak(self) -> int: ...

class Figures:
    """Bytes of the moment, peaks and counts since a reset."""

    @property
    def requested_bytes(self) -> int: ...

    @property
    def requested_peak(self) -> int: ...

    @property
    def allocated_bytes(self) -> int: ...

    @property
    def allocated_peak(self) -> int: ...

    @property
    def reserved_bytes(self) -> int: ...

    @property
    def reserved_peak(self) -> int: ...

    @property
    def arena_bytes(self) -> int: ...

    @property
    def live_peak(self) -> int: ...

    @property
    def steps(self) -> int: ...

    @property
    def planned_steps(self) -> int: ...

    @property
    def planned_requests(self) -> int: ...

    @property
    def escaping_requests(self) -> int: ...

    @property
    def grown_requests(self) -> int: ...

    @property
    def fallback_requests(self) -> int: ...

    @property
    def fallback_bytes(self) -> int: ...

    @property
    def step_bytes(self) -> int: ...

    @property
    def missing_requests(self) -> int: ...

    @property
    def moved_bytes(self) -> int: ...

    @property
    def refused_frees(self) -> int: ...

class Tenant:
    """A block that was, or came to be, where was written."""

    @property
    def address(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def stream(self) -> int: ...

    @property
    def request(self) -> int: ...

    @property
    def kind(self) -> int: ...

    @property
    def slot(self) -> int: ...

    @property
    def step(self) -> int: ...

class Overwrite:
    """Free memory that somebody wrote to."""

    @property
    def address(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def before(self) -> Tenant: ...

    @property
    def after(self) -> Tenant: ...

class LogKind(enum.IntEnum):
    """What a row of a log tells of."""

    REQUEST = 0

    FREE = 1

    STEP_BEGINS = 2

    STEP_ENDS = 3

class PlannedAllocator:
    """
    Every request at its planned place, or at the next best one.

    One lock guards it all, and is not held while a listener runs.
    """

    def __init__(self, memory: DeviceMemory, is_plain: bool = False, is_checked: bool = False) -> None: ...

    def allocate(self, bytes: int, stream: int = 0) -> int: ...

    def free(self, address: int) -> bool: ...

    def use_on(self, address: int, stream: int) -> bool: ...

    def begin_step(self, label: int = 0) -> StepEnd: ...

    def end_step(self) -> StepEnd: ...

    def adopt_book(self, kinds: Sequence[KindPlan], arena_bytes: int) -> None: ...

    def drop_book(self) -> None: ...

    def give_back(self) -> int: ...

    def take_log(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None))]: ...

    def blocks_in_arena(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None))]: ...

    def drop_log(self) -> None: ...

    def figures(self) -> Figures: ...

    def reset_peaks(self) -> None: ...

    def mismatches(self) -> list[Mismatch]: ...

    def mismatch_counts(self) -> list[int]: ...

    def on_mismatch(self, listener: Callable[[Mismatch], None] | None) -> None: ...

    @property
    def is_checked(self) -> bool: ...

    def take_overwrites(self, everywhere: bool = False) -> list[Overwrite]: ...

    def check(self) -> None: ...

def install(device: int, allocator: PlannedAllocator) -> None: ...

def serving_table() -> int: ...
