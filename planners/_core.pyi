"""The C++ core of Gapless."""

import enum
from typing import Annotated

import numpy
from numpy.typing import NDArray


class Graph:
    """A computation graph; see planners.graph."""

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

def section_ranges(tensors: int, segments: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,))], Annotated[NDArray[numpy.int32], dict(shape=(None,))], int]:
    """
    First section and one past the last of each row (tensor, start, end), sorted by tensor; and the number of sections.
    """

class Blocks:
    """What is placed as one piece; see planners.blocks."""

    def __init__(self, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], members: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], before: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], modulus: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], residue: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], pinned: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class Instance:
    """A problem as the core works on it, over columns that may not change."""

    @staticmethod
    def from_segments(size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], blocks: Blocks, segments: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> Instance:
        """Lifetimes decide: rows (tensor, start, end), sorted by tensor."""

    @staticmethod
    def from_rows(size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], blocks: Blocks, unsafe: BitRows) -> Instance:
        """Rows of unsafe pairs decide."""

    def conflicting_pins(self) -> tuple[int, int] | None: ...

    def unsafe(self, a: int, b: int) -> bool: ...

    def unsafe_degrees(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

class Fit(enum.Enum):
    FIRST = 0

    BEST = 1

class ChainRule(enum.Enum):
    EXACT = 0

    PAPER = 1

def place_single_object(instance: Instance, order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], fit: Fit, chain_rule: ChainRule, seconds: float) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """Algorithm 6: offsets for blocks placed in this order."""

def place_many_objects(instance: Instance, order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], fit: Fit, chain_rule: ChainRule, seconds: float) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """Algorithm 7: offsets for blocks placed in this order."""

def forbidden_starts(instance: Instance, offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], block: int, floor: int = 0) -> list[tuple[int, int]]:
    """
    Algorithms 8 and 9: the starts that placed tensors (offset >= 0) forbid to a block.
    """

def heaviest_antichain(graph: Graph, size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seconds: float) -> tuple[int, Annotated[NDArray[numpy.int32], dict(shape=(None,))]]:
    """Bytes and tensors of the heaviest pairwise unsafe set."""

def find_overlap_in_time(offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], segments: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> tuple[int, int] | None:
    """Two tensors that share a byte and a step, if any."""

class DescendantSafety:
    """What a graph lets share bytes, by descendant sets."""

    def __init__(self, stream: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], producer: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], consumer_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], consumers: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], control: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None: ...

    def find_overlap(self, offset: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[int, int] | None:
        """Two unsafe tensors that share a byte, if any."""
