"""
The C++ core of Gapless.

Arrays are copied and checked before anything is done with them: a name of something that does
not exist is an IndexError, a sum that is too large an OverflowError, what does not fit together or
is more than is taken a ValueError. Any number of threads may call at once, and share objects, but
where a class says otherwise. Long calls let other threads run; in the main thread they notice
signals. `seconds` is a limit, which may be infinite; a TimeoutError says that it has passed.
"""

from collections.abc import Sequence
import enum
from typing import Annotated

import numpy
from numpy.typing import NDArray


class StopSignal:
    """
    Ends the calls of every thread that has taken it, as the time limit does.
    """

    def __init__(self) -> None: ...

    def give(self) -> None: ...

    @property
    def given(self) -> bool: ...

    def take(self) -> None:
        """From now on this thread's calls heed it, instead of the one before."""

    @staticmethod
    def drop() -> None:
        """From now on this thread's calls heed none."""

MOST_TABLE_BYTES: int = 4294967296

class Graph:
    """A computation graph; see planners.model.graph."""

    def __init__(self, stream: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], producer: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], consumer_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], consumers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], control: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None: ...

class BitRows:
    """A symmetric relation between tensors, as bits."""

    @property
    def tensors(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def matrix(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None))]:
        """The relation as uint8, shape (tensors, tensors)."""

    def equals(self, other: BitRows) -> bool: ...

def unsafe_by_ancestors(graph: Graph) -> BitRows: ...

def unsafe_by_last_ancestors(graph: Graph) -> BitRows: ...

def unsafe_by_streams(graph: Graph) -> BitRows: ...

def unsafe_by_clocks(graph: Graph) -> BitRows: ...

def rows_from_pairs(tensors: int, pairs: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> BitRows: ...

def fuse_local_plans(size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], end: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], address: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], guest_size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], guest_start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], guest_end: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], within: bool, seconds: float) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Addresses of guests, in the order of their starts, that are inserted into a host's plan; -1 for those left over where they have to stay within its bytes.
    """

def memory_layers(start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], end: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Algorithm 1: the layer of each request of one size, in the order of their starts.
    """

def plan_in_layers(size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], start: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], end: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], smallest_first: bool, beside: bool, seconds: float) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
    """
    Layer of each request, the bytes of the layer below it, and the sizes of the layers; for requests by falling size, then by start.
    """

def section_ranges(tensors: int, segments: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], int]:
    """
    First section and one past the last of each row (tensor, start, end), sorted by tensor; and the number of sections.
    """

class Blocks:
    """What is placed as one piece; see planners.model.blocks."""

    def __init__(self, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], members: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], before: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], modulus: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], residue: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], pinned: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class Instance:
    """A problem as the core works on it."""

    @staticmethod
    def from_segments(size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], blocks: Blocks, segments: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> Instance:
        """Lifetimes decide: rows (tensor, start, end), sorted by tensor."""

    @staticmethod
    def from_rows(size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], blocks: Blocks, unsafe: BitRows) -> Instance:
        """Rows of unsafe pairs decide."""

    @staticmethod
    def from_graph(size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], blocks: Blocks, graph: Graph) -> Instance:
        """A graph decides, by a number a tensor and stream and without rows."""

    def with_rows(self) -> Instance:
        """The same problem with rows of unsafe pairs, whatever decides."""

    def conflicting_pins(self) -> tuple[int, int] | None: ...

    def unsafe(self, a: int, b: int) -> bool: ...

    def unsafe_with(self, tensor: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
        """The tensors that one is unsafe with, rising."""

    def unsafe_degrees(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    def unsafe_pairs(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None))]:
        """
        Every unsafe pair of tensors that both have bytes: rows (a, b) with a < b, sorted.
        """

    def grow_clique(self, first: int, order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """
        Pairwise unsafe tensors: the first, and each of an order that is unsafe with all so far. Needs rows.
        """

NO_LIMIT: int = 9223372036854775807

FILL_REASONS: int = 6

class Fit(enum.Enum):
    FIRST = 0

    BEST = 1

class ChainRule(enum.Enum):
    EXACT = 0

    PAPER = 1

def place_single_object(instance: Instance, order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], fit: Fit, chain_rule: ChainRule, limit: int, seconds: float) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], int, bool]:
    """
    Algorithm 6: offsets for blocks placed in this order; how many of the order were placed before one would have ended at or above the limit, or the time was over; and whether it was.
    """

def place_many_objects(instance: Instance, order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], fit: Fit, chain_rule: ChainRule, limit: int, seconds: float) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], int, bool]:
    """
    Algorithm 7: offsets for blocks placed in this order; how many of the order were placed before one would have ended at or above the limit, or the time was over; and whether it was.
    """

def search_orders(instance: Instance, order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], limit: int, attempts: int, seed: int, seconds: float) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], int]:
    """
    Offsets of the first plan below the limit, empty without one; the order to go on from; and the attempts made.
    """

def beam_over_skylines(instance: Instance, capacity: int, width: int, node_limit: int, seed: int, seconds: float) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], int, bool]:
    """
    Offsets of a plan within the capacity, empty without one; the skylines looked at; and whether a wider beam would do the same.
    """

def search_fills(instance: Instance, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], priority: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], limit: int, attempts: int, seed: int, seconds: float) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None,))], Annotated[NDArray[numpy.float64], dict(shape=(None,))], int]:
    """
    Offsets of the first plan below the limit, empty without one; the weights and priorities to go on from; and the attempts made.
    """

def forbidden_starts(instance: Instance, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], block: int, floor: int = 0) -> list[tuple[int, int]]:
    """
    Algorithms 8 and 9: the starts that placed tensors (offset >= 0) forbid to a block.
    """

MOST_MEMBERS: int = 20000

class SearchProblem:
    """Blocks of members that are unsafe where they share a section."""

    def __init__(self, modulus: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], residue: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], pinned: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], block: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], before: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], lifetime: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], sections: int) -> None: ...

class Verdict(enum.Enum):
    FITS = 0

    REFUTED = 1

    NODE_LIMIT = 2

class SearchCounters:
    """How often a search did what."""

    @property
    def nodes(self) -> int: ...

    @property
    def by_section(self) -> int: ...

    @property
    def by_passed_over(self) -> int: ...

    @property
    def by_dominance(self) -> int: ...

    @property
    def by_memory(self) -> int: ...

    @property
    def dominated(self) -> int: ...

    @property
    def identical(self) -> int: ...

    @property
    def raised(self) -> int: ...

    @property
    def splits(self) -> int: ...

class Decision:
    """Whether a plan stays within a capacity."""

    @property
    def verdict(self) -> Verdict: ...

    @property
    def offsets(self) -> list[int]: ...

    @property
    def counters(self) -> SearchCounters: ...

class SearchKey(enum.Enum):
    SECTION_TOTAL = 0

    SECTION_LEFT = 1

    SECTION_COUNT = 2

    LIFETIME = 3

    AREA = 4

    SIZE = 5

    EARLIEST_START = 6

    LATEST_START = 7

    LATEST_END = 8

    EARLIEST_END = 9

class CanonicalRules:
    """Rules that may be left out. A question takes a copy."""

    def __init__(self) -> None: ...

    @property
    def dominance(self) -> bool: ...

    @dominance.setter
    def dominance(self, arg: bool, /) -> None: ...

    @property
    def passed_over(self) -> bool: ...

    @passed_over.setter
    def passed_over(self, arg: bool, /) -> None: ...

    @property
    def lowest(self) -> bool: ...

    @lowest.setter
    def lowest(self, arg: bool, /) -> None: ...

    @property
    def identical(self) -> bool: ...

    @identical.setter
    def identical(self, arg: bool, /) -> None: ...

    @property
    def split(self) -> bool: ...

    @split.setter
    def split(self, arg: bool, /) -> None: ...

    @property
    def memory(self) -> bool: ...

    @memory.setter
    def memory(self, arg: bool, /) -> None: ...

class CanonicalSearch:
    """
    Exact search for single tensors.

    It keeps the state of its question: a second one from another thread, or from a
    handler of signals, is refused with a RuntimeError.
    """

    def __init__(self, problem: SearchProblem, seconds: float) -> None: ...

    def decide(self, capacity: int, order: Sequence[SearchKey], node_limit: int, wander: int, seed: int, rules: CanonicalRules, seconds: float) -> Decision: ...

class Branching(enum.Enum):
    LARGEST = 0

    LEAST_ROOM = 1

class DisjunctiveSearch:
    """Exact search for blocks of any kind."""

    def __init__(self, problem: SearchProblem, seconds: float) -> None: ...

    def decide(self, capacity: int, node_limit: int, branching: Branching, lowest: bool, forced: bool, seconds: float) -> Decision: ...

class OrderProblem:
    """What an order of a graph's nodes is judged by."""

    def __init__(self, nodes: int, producer: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], consumer_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], consumers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], control: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def peak(self, order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int:
        """Bytes alive at the largest step of an order."""

    def forced_bytes(self, seconds: float) -> int:
        """Bytes that no order stays below."""

    def order_by_growth(self, from_end: bool, seconds: float) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

class OrderVerdict(enum.Enum):
    FOUND = 0

    REFUTED = 1

    STATE_LIMIT = 2

class DownSetSearch:
    """The least peak over all orders. One thread at a time."""

    def __init__(self, problem: OrderProblem) -> None: ...

    def run(self, floor: int, limit: int, states: int, seconds: float) -> OrderVerdict:
        """
        Whether an order stays below the limit. `bound` holds where the time is over, too.
        """

    @property
    def bound(self) -> int: ...

    @property
    def taken(self) -> int: ...

    @property
    def order(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

class OrderWalk:
    """Local search over orders. One thread at a time."""

    def __init__(self, problem: OrderProblem, order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], floor: int, seed: int) -> None: ...

    def run(self, moves: int, seconds: float) -> None:
        """The best order is kept, also where the time is over."""

    @property
    def tried(self) -> int: ...

    @property
    def best(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def best_peak(self) -> int: ...

class GraphColumns:
    """A graph whose nodes can be listed in another order."""

    def __init__(self, stream: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], producer: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], consumer_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], consumers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], control: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class StreamOrderSearch:
    """
    The least heaviest antichain over all orders of streams. One thread at a time.
    """

    def __init__(self, problem: OrderProblem, columns: GraphColumns) -> None: ...

    def run(self, floor: int, limit: int, flows: int, seconds: float) -> OrderVerdict:
        """The best order is kept, also where the time is over."""

    @property
    def flows(self) -> int: ...

    @property
    def order(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

class StreamWalk:
    """Local search over the orders of several streams. One thread at a time."""

    def __init__(self, problem: OrderProblem, columns: GraphColumns, order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], floor: int, seed: int) -> None: ...

    def run(self, moves: int, seconds: float) -> None:
        """The best order is kept, also where the time is over."""

    @property
    def tried(self) -> int: ...

    @property
    def best(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def best_bytes(self) -> int:
        """Heaviest antichain of the best order; -1 before one is known."""

class AntichainSearch:
    """
    The search for the heaviest pairwise unsafe set. Any thread may run it; one at a time does.
    """

    def __init__(self, graph: Graph, size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def run(self, seconds: float) -> tuple[int, Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
        """
        Bytes and tensors. Where the time is over before it is done (TimeoutError), the next call goes on from there.
        """

def find_overlap_in_time(offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], segments: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> tuple[int, int] | None:
    """Two tensors that share a byte and a step, if any."""

class DescendantSafety:
    """What a graph lets share bytes, by what descends from each node."""

    def __init__(self, stream: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], producer: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], consumer_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], consumers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], control: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None: ...

    def find_overlap(self, offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[int, int] | None:
        """Two unsafe tensors that share a byte, if any."""

def find_pickle_fault(data: bytes, containers: int, scalars: int, integer_bytes: int) -> tuple[str, int, int]:
    """
    The rule of plain pickles that some data breaks, empty if none, with the number found and the bytes left there.
    """
