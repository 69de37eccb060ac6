"""
The C++ core of the runtime: allocators over simulated and CUDA memory.

Any number of threads may call at once, and share objects, but where a class says otherwise. What a
device refuses is an OSError, what it has no memory for a MemoryError, a call at the wrong time a RuntimeError, and a plan that
breaks a rule a ValueError that names the rule.
"""

from collections.abc import Callable, Mapping, Sequence
import enum
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


class DeviceMemory:
    """What an allocator asks of a device."""

    @property
    def page_bytes(self) -> int: ...

    def free_bytes(self) -> int: ...

    def reserve_range(self, bytes: int) -> int: ...

    def release_range(self, address: int, bytes: int) -> None: ...

    def create_pages(self, bytes: int) -> int: ...

    def release_pages(self, pages: int) -> None: ...

    def map(self, address: int, pages: int, bytes: int) -> None: ...

    def set_access(self, address: int, bytes: int) -> None: ...

    def unmap(self, address: int, bytes: int) -> None: ...

    def allocate_plain(self, bytes: int) -> int: ...

    def release_plain(self, address: int) -> None: ...

    def synchronize(self) -> None: ...

    def record_event(self, stream: int) -> int: ...

    def is_done(self, event: int) -> bool: ...

    def await_event(self, event: int) -> None: ...

    def make_wait(self, stream: int, event: int) -> None: ...

    def destroy_event(self, event: int) -> None: ...

class CudaMemory(DeviceMemory):
    """A CUDA device, by the driver."""

    def __init__(self, device: int) -> None: ...

    def make_stream(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def capability(self) -> tuple[int, int]: ...

    def load_checks(self, image: bytes) -> None: ...

class LedgerStreams(enum.Enum):
    """When a stream is done with its work."""

    AT_ONCE = 0

    WHEN_TOLD = 1

class LedgerMemory(DeviceMemory):
    """
    A device that keeps accounts and has no memory.

    It belongs to one thread at a time.
    """

    def __init__(self, page_bytes: int, capacity_bytes: int, streams: LedgerStreams = LedgerStreams.AT_ONCE) -> None: ...

    def dictate_plain(self, addresses: Sequence[int]) -> None: ...

    def dictate_ranges(self, addresses: Sequence[int]) -> None: ...

    def finish(self, stream: int) -> None: ...

    @property
    def created_bytes(self) -> int: ...

    @property
    def live_events(self) -> int: ...

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

    def work_at_events(self) -> None: ...

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

    @staticmethod
    def with_hand_overs(kinds: Sequence[KindPlan], arena_bytes: int) -> StepBook: ...

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

class ServingAllocator:
    """What PyTorch's allocator can ask first."""

    def allocate(self, bytes: int, stream: int = 0) -> int: ...

    def free(self, address: int) -> bool: ...

    def use_on(self, address: int, stream: int) -> bool: ...

    def give_back(self) -> int: ...

class PlannedAllocator(ServingAllocator):
    """
    Every request at its planned place, or at the next best one.

    One lock guards it all, and is not held while a listener runs.
    """

    def __init__(self, memory: DeviceMemory, is_plain: bool = False, is_checked: bool = False) -> None: ...

    def begin_step(self, label: int = 0) -> StepEnd: ...

    def end_step(self) -> StepEnd: ...

    @overload
    def adopt_book(self, kinds: Sequence[KindPlan], arena_bytes: int) -> None: ...

    @overload
    def adopt_book(self, book: StepBook) -> None:
        """The book is used up; it has no kinds afterwards."""

    def drop_book(self) -> None: ...

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

def install(device: int, allocator: ServingAllocator) -> None: ...

def serving_table() -> int: ...

class DeviceCalls:
    """A number for each kind of call to a device."""

    @property
    def reserve_range(self) -> int: ...

    @property
    def release_range(self) -> int: ...

    @property
    def create_pages(self) -> int: ...

    @property
    def release_pages(self) -> int: ...

    @property
    def map(self) -> int: ...

    @property
    def set_access(self) -> int: ...

    @property
    def unmap(self) -> int: ...

    @property
    def allocate_plain(self) -> int: ...

    @property
    def release_plain(self) -> int: ...

    @property
    def synchronize(self) -> int: ...

    @property
    def record_event(self) -> int: ...

    @property
    def await_event(self) -> int: ...

    @property
    def make_wait(self) -> int: ...

    @property
    def other(self) -> int: ...

class CountingMemory(DeviceMemory):
    """A device that counts what it is asked, and may time it."""

    def __init__(self, memory: DeviceMemory, is_timed: bool = False) -> None: ...

    @property
    def calls(self) -> DeviceCalls: ...

    @property
    def nanoseconds(self) -> DeviceCalls: ...

class SegmentLog(DeviceMemory):
    """A device that remembers what memory came when."""

    def __init__(self, memory: DeviceMemory) -> None: ...

    def rows(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None))]:
        """Rows (address, bytes, row of the replay)."""

class ReplayedStreams(DeviceMemory):
    """
    A device on which the streams of a recorded run stand for some that there are.
    """

    def __init__(self, memory: DeviceMemory, other: int) -> None: ...

    def stand_for(self, recorded: int, handle: int) -> None: ...

    def finish(self, recorded: int) -> None: ...

class Overwritten:
    """A block that was written to while it lived."""

    @property
    def number(self) -> int: ...

    @property
    def address(self) -> int: ...

    @property
    def words(self) -> int: ...

class BlockStamps(DeviceMemory):
    """
    A device whose blocks are filled when they are handed out, and looked at when freed.
    """

    def __init__(self, memory: DeviceMemory, device: DeviceMemory) -> None: ...

    def hand_out(self, number: int, address: int, bytes: int) -> None: ...

    def take_back(self, number: int) -> None: ...

    def take_back_after(self, number: int, stream: int) -> None: ...

    def take_back_all(self) -> None: ...

    def found(self) -> list[Overwritten]: ...

class OnlineFigures:
    """Bytes of the moment, and peaks."""

    @property
    def requested_bytes(self) -> int: ...

    @property
    def requested_peak(self) -> int: ...

    @property
    def allocated_bytes(self) -> int: ...

    @property
    def allocated_peak(self) -> int: ...

    @property
    def active_bytes(self) -> int: ...

    @property
    def active_peak(self) -> int: ...

    @property
    def free_bytes(self) -> int: ...

    @property
    def reserved_bytes(self) -> int: ...

    @property
    def reserved_peak(self) -> int: ...

    @property
    def segments(self) -> int: ...

class OnlineState(enum.Enum):
    """What a block of an online allocator is."""

    ALLOCATED = 0

    PENDING = 1

    FREE = 2

    UNMAPPED = 3

class OnlineBlock:
    """A stretch of a segment."""

    @property
    def address(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def requested(self) -> int: ...

    @property
    def state(self) -> OnlineState: ...

class OnlineSegment:
    """Blocks side by side."""

    @property
    def address(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def stream(self) -> int: ...

    @property
    def blocks(self) -> list[OnlineBlock]: ...

class OnlineAllocator:
    """
    Serves each request when it comes.

    It and its device belong to one thread at a time.
    """

    def allocate(self, bytes: int, stream: int = 0) -> int: ...

    def free(self, address: int) -> bool: ...

    def use_on(self, address: int, stream: int) -> bool: ...

    def settle(self) -> None: ...

    def give_back(self) -> None: ...

    def figures(self) -> OnlineFigures: ...

    def reset_peaks(self) -> None: ...

    def segments(self) -> list[OnlineSegment]: ...

    def check(self) -> None: ...

class ServingPolicy(ServingAllocator):
    """
    An online allocator beneath PyTorch's.

    One lock guards it and its device.
    """

    def __init__(self, policy: OnlineAllocator, memory: CountingMemory) -> None: ...

    def figures(self) -> OnlineFigures: ...

    def reset_peaks(self) -> None: ...

    def calls(self) -> DeviceCalls: ...

    def nanoseconds(self) -> DeviceCalls: ...

    def check(self) -> None: ...

class PytorchSettings:
    """What PyTorch's users configure of its allocator, in bytes."""

    def __init__(self, max_split_bytes: int = 18446744073709551615, max_non_split_rounding_bytes: int = 20971520, roundup_power2_divisions: Sequence[int] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], garbage_collection_threshold: float = 0.0, large_segment_bytes: int = 20971520, expandable_page_bytes: int = 0, per_process_memory_fraction: float = 1.0) -> None: ...

    def rounded(self, requested: int) -> int: ...

    def segment_for(self, bytes: int) -> int: ...

class PytorchCaching(OnlineAllocator):
    """PyTorch's allocator as it is by default."""

    def __init__(self, memory: DeviceMemory, settings: PytorchSettings = ...) -> None: ...

class PytorchExpandable(OnlineAllocator):
    """PyTorch's allocator with expandable segments."""

    def __init__(self, memory: DeviceMemory, settings: PytorchSettings = ...) -> None: ...

class GmlakeRules:
    """The constants of virtual memory stitching."""

    def __init__(self, chunk_bytes: int = 2097152, fragmentation_limit_bytes: int = 134217728, limits_blocks: bool = False, most_stitched: int = 4096, most_stitched_bytes: int = 4398046511104) -> None: ...

class GmlakeStates:
    """How often a request found what it found."""

    @property
    def exact(self) -> int: ...

    @property
    def single(self) -> int: ...

    @property
    def whole(self) -> int: ...

    @property
    def multiple(self) -> int: ...

    @property
    def insufficient(self) -> int: ...

    @property
    def out_of_memory(self) -> int: ...

class Gmlake(OnlineAllocator):
    """Stitches free blocks that are apart."""

    def __init__(self, memory: DeviceMemory, rules: GmlakeRules = ...) -> None: ...

    def states(self) -> GmlakeStates: ...

    @property
    def stitched_count(self) -> int: ...

    @property
    def primitive_count(self) -> int: ...

class VpmmSettings:
    """The constants of VPMM's pool."""

    def __init__(self, page_bytes: int = 2097152, pages: int = 0, chunk_bytes: int = 8796093022208) -> None: ...

class VpmmState(enum.Enum):
    """What a region of VPMM is."""

    LIVE = 0

    PENDING = 1

    FREE = 2

    FRESH = 3

    HOLE = 4

    ZOMBIE = 5

class VpmmView:
    """A region of VPMM."""

    @property
    def address(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def state(self) -> VpmmState: ...

    @property
    def stream(self) -> int: ...

class Vpmm(OnlineAllocator):
    """Moves pages to where they are needed."""

    def __init__(self, memory: DeviceMemory, settings: VpmmSettings = ...) -> None: ...

    def regions(self) -> list[VpmmView]:
        """By address."""

    def keep_stages(self) -> None: ...

    def stages(self) -> list[list[VpmmView]]:
        """The regions after each step of the last request's phase 2."""

class RequestLog:
    """The requests of a recorded run."""

    def __init__(self, action: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], address: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], stream: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    @property
    def row_count(self) -> int: ...

    @property
    def request_count(self) -> int: ...

class RecordedAction(enum.IntEnum):
    """What a row of a recorded run tells of."""

    ALLOCATE = 0

    FREE_REQUESTED = 1

    FREE_COMPLETED = 2

    SEGMENT_ALLOCATED = 3

    SEGMENT_FREED = 4

    SEGMENT_MAPPED = 5

    SEGMENT_UNMAPPED = 6

class ReplayOutcome:
    """What became of the requests."""

    def take_addresses(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]: ...

    def take_reserved(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def take_allocated(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def out_of_memory_row(self) -> int: ...

    @property
    def seconds(self) -> float: ...

class PolicyReplay:
    """The requests of a recorded run, made to a policy."""

    def __init__(self, log: RequestLog, allocator: OnlineAllocator, memory: DeviceMemory, segments: SegmentLog | None = None, has_series: bool = False, stamps: BlockStamps | None = None) -> None: ...

    def run_to(self, row: int) -> None:
        """Make the rows before one that were not made yet."""

    def end(self) -> ReplayOutcome: ...

    @property
    def seconds(self) -> float: ...

    @property
    def out_of_memory_row(self) -> int: ...

class PlannedReplay:
    """The requests of a recorded run, made to planned memory."""

    def __init__(self, log: RequestLog, allocator: PlannedAllocator, memory: DeviceMemory, segments: SegmentLog | None = None, has_series: bool = False, stamps: BlockStamps | None = None) -> None: ...

    def run_to(self, row: int) -> None:
        """Make the rows before one that were not made yet."""

    def end(self) -> ReplayOutcome: ...

    @property
    def seconds(self) -> float: ...

    @property
    def out_of_memory_row(self) -> int: ...

class KindRecord:
    """What was seen of one kind of step."""

    def __init__(self, number: int, label: int, stream: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], least: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], most: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], last: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], end: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], short_end: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], was_freed: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], renewed: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], later: Mapping[int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]], seen: int, last_seen: int) -> None: ...

    @property
    def number(self) -> int: ...

    @property
    def label(self) -> int: ...

    @property
    def stream(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def least(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def most(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def last(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def end(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def short_end(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def was_freed(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def renewed(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def later(self) -> dict[int, NDArray[numpy.int64]]: ...

    @property
    def seen(self) -> int: ...

    @property
    def last_seen(self) -> int: ...

MOST_KINDS: int = 16

REPEATED: int = 2

class ProgramRecord:
    """The kinds of step of a program, learnt from the allocator's log."""

    def __init__(self, kinds: Sequence[KindRecord]) -> None: ...

    def add(self, rows: Annotated[NDArray[numpy.int64], dict(shape=(None, 6), order='C', device='cpu', writable=False)], in_book: Sequence[int]) -> None: ...

    def lose_track(self) -> None: ...

    def saw(self, numbers: Sequence[int]) -> None: ...

    @property
    def version(self) -> int: ...

    @property
    def newest_request(self) -> int: ...

    @property
    def knew_last_step(self) -> bool: ...

    def kinds(self, least_seen: int = 0) -> list[KindRecord]: ...

    def stays(self, requests: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    def live_bytes(self) -> int: ...
