"""The problem: tensors, which of them may share bytes, and the conditions on their offsets."""

from __future__ import annotations

import copy
import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from planners.errors import InstanceError
from planners.model.blocks import NOT_PINNED, Blocks, make_blocks
from planners.model.columns import (
    INT64_MAX,
    BoolColumn,
    IntColumn,
    frozen_column,
    frozen_lists,
    frozen_names,
    frozen_rows,
    is_integer_type,
    read_only,
    shown,
)
from planners.model.graph import Graph
from planners.text.byte_units import both_bytes, counted
from planners.text.plain_text import one_line

if TYPE_CHECKING:
    from planners._core import Instance
    from planners.model.bounds import KnownBounds

MAX_TENSORS = 20_000_000
MAX_ALIGNMENT = 1 << 40
MAX_TOTAL_BYTES = 1 << 61
# Characters of a name in a message.
MOST_SHOWN_NAME = 100

Scalar = str | int | float | bool


class Safety(enum.Enum):
    """What decides which pairs of tensors may share bytes."""

    LIFETIMES = "lifetimes"
    GRAPH = "graph"
    PAIRS = "pairs"


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """Offset assignment: place every tensor so that unsafe pairs share no byte.

    Immutable, one array entry a tensor, validated here once; every algorithm assumes validity.
    Exactly one thing decides safety: lifetimes (``start`` and ``end``), a ``graph``, or
    ``unsafe_pairs``. With a graph the lifetimes follow from its order; with explicit pairs
    nothing is known of them and both columns are zero.

    Parameters
    ----------
    size
        int64 bytes, at least 0.
    start, end
        int64 steps, half-open ``[start, end)`` with ``start < end``.
    graph
        Computation graph with streams, see :class:`planners.model.graph.Graph`.
    unsafe_pairs
        Pairs of tensors that may not share bytes.
    alignment
        int64 powers of two, 1 by default: ``offset % alignment == 0``.
    contiguous
        Chains of at least two tensors, each starting where the one before ends.
    pinned
        Offsets that are given, as ``{tensor: offset}``.
    gaps
        Rows ``(tensor, start, end)``: steps within its lifetime in which a tensor needs no
        memory. Only where lifetimes decide safety.
    capacity
        Bytes; when given, the question becomes whether a plan fits.
    phase_start, phase_end, layer_start, layer_end
        int64, the computation phase and the module in which a tensor is allocated and freed.
    dynamic
        Whether a tensor's size varies at run time.
    tensor_name
        One name a tensor, for messages and plots.
    name, origin
        Provenance: a short name, and model, settings, command, versions as scalars.

    Raises
    ------
    InstanceError
        A rule of the model is broken; the message names field and tensor.

    References
    ----------
    Lamprou et al. 2023, definition 5.
    """

    size: IntColumn
    alignment: IntColumn
    start: IntColumn
    end: IntColumn
    graph: Graph | None
    unsafe_pairs: IntColumn | None
    contiguous: tuple[tuple[int, ...], ...]
    pinned: IntColumn
    gaps: IntColumn
    capacity: int | None
    phase_start: IntColumn | None
    phase_end: IntColumn | None
    dynamic: BoolColumn | None
    layer_start: IntColumn | None
    layer_end: IntColumn | None
    tensor_name: tuple[str, ...] | None
    name: str
    origin: Mapping[str, Scalar]
    blocks: Blocks

    def __init__(
        self,
        size: Iterable[int] | IntColumn,
        start: Iterable[int] | IntColumn | None = None,
        end: Iterable[int] | IntColumn | None = None,
        *,
        graph: Graph | None = None,
        unsafe_pairs: Iterable[Sequence[int]] | IntColumn | None = None,
        alignment: Iterable[int] | IntColumn | None = None,
        contiguous: Iterable[Sequence[int] | IntColumn] = (),
        pinned: Mapping[int, int] | None = None,
        gaps: Iterable[Sequence[int]] | IntColumn = (),
        capacity: int | None = None,
        phase_start: Iterable[int] | IntColumn | None = None,
        phase_end: Iterable[int] | IntColumn | None = None,
        dynamic: Iterable[bool] | BoolColumn | None = None,
        layer_start: Iterable[int] | IntColumn | None = None,
        layer_end: Iterable[int] | IntColumn | None = None,
        tensor_name: Iterable[str] | None = None,
        name: str = "problem",
        origin: Mapping[str, Scalar] | None = None,
    ) -> None:
        def put(field: str, value: object) -> None:
            object.__setattr__(self, field, value)

        put("size", frozen_column("size", size))
        tensors = self.tensor_count
        if tensors > MAX_TENSORS:
            raise InstanceError(f"field size: at most {MAX_TENSORS} tensors, found {tensors}")
        put("alignment", self._column("alignment", alignment, default=1))
        put("graph", graph)
        put("unsafe_pairs", None)
        if unsafe_pairs is not None:
            put("unsafe_pairs", frozen_rows("unsafe_pairs", unsafe_pairs, width=2))
        self._take_lifetimes(start, end)
        put("contiguous", _as_chains(contiguous))
        put("pinned", self._pinned_column(pinned or {}))
        put("gaps", frozen_rows("gaps", gaps, width=3))
        put("capacity", _as_capacity(capacity))
        for field, values in (
            ("phase_start", phase_start),
            ("phase_end", phase_end),
            ("layer_start", layer_start),
            ("layer_end", layer_end),
        ):
            put(field, None if values is None else self._column(field, values))
        put("dynamic", None if dynamic is None else self._flags("dynamic", dynamic))
        put("tensor_name", None)
        if tensor_name is not None:
            put("tensor_name", frozen_names("tensor_name", tensor_name, entry="tensor"))
        put("name", _as_name(name))
        put("origin", _as_origin(origin or {}))
        self._validate()
        put("blocks", make_blocks(self.size, self.alignment, self.pinned, self.contiguous))

    def __repr__(self) -> str:
        parts = [
            counted(self.tensor_count, "tensor"),
            counted(self.stream_count, "stream"),
            counted(len(self.contiguous), "chain"),
            f"naive sum {both_bytes(self.naive_bytes)}",
        ]
        if self.capacity is not None:
            parts.append(f"capacity {both_bytes(self.capacity)}")
        return f"<Problem {shown(self.name)}: {', '.join(parts)}>"

    @property
    def tensor_count(self) -> int:
        """Number of tensors."""
        return len(self.size)

    @property
    def safety(self) -> Safety:
        """What decides which pairs of tensors may share bytes."""
        if self.graph is not None:
            return Safety.GRAPH
        return Safety.LIFETIMES if self.unsafe_pairs is None else Safety.PAIRS

    @property
    def _safety_field(self) -> str:
        return "graph" if self.graph is not None else "unsafe_pairs"

    @property
    def stream_count(self) -> int:
        """Number of streams; 1 where no graph says otherwise."""
        return 1 if self.graph is None else self.graph.stream_count

    @cached_property
    def naive_bytes(self) -> int:
        """Sum of all sizes: the peak when no two tensors share a byte, alignment aside."""
        return int(self.size.sum())

    @cached_property
    def core(self) -> Instance:
        """The problem as the C++ core holds it; made once and shared by every planner."""
        from planners.model.core_instance import make_core_instance

        return make_core_instance(self)

    @cached_property
    def known_bounds(self) -> KnownBounds:
        """What is known of the lower bounds; ``bounds`` fills it as it is asked."""
        from planners.model.bounds import KnownBounds

        return KnownBounds()

    def with_capacity(self, capacity: int | None) -> Problem:
        """Return the same problem with another capacity; the rest is shared, not copied.

        Parameters
        ----------
        capacity
            Bytes; None asks for the smallest peak instead.

        Returns
        -------
        Problem
            Validated.

        Raises
        ------
        InstanceError
            The capacity is no number of bytes.
        """
        return self._copy_with("capacity", _as_capacity(capacity))

    def with_name(self, name: str) -> Problem:
        """Return the same problem under another name; the rest is shared, not copied.

        Parameters
        ----------
        name
            Printable.

        Returns
        -------
        Problem
            Validated.

        Raises
        ------
        InstanceError
            The name cannot be printed.
        """
        return self._copy_with("name", _as_name(name))

    def _copy_with(self, field: str, value: object) -> Problem:
        _ = self.known_bounds  # no bound depends on the capacity or the name
        problem = copy.copy(self)
        object.__setattr__(problem, field, value)
        return problem

    def describe(self, tensor: int) -> str:
        """Return how messages call a tensor: its index, and its name where it has one."""
        if self.tensor_name is None:
            return f"tensor {tensor}"
        return f"tensor {tensor} ({one_line(self.tensor_name[tensor], MOST_SHOWN_NAME)})"

    def segments(self) -> IntColumn:
        """Return the steps in which each tensor needs memory: lifetimes less gaps.

        Returns
        -------
        numpy.ndarray
            int64, rows ``(tensor, start, end)`` sorted by tensor and start.
        """
        whole = np.column_stack([np.arange(self.tensor_count), self.start, self.end])
        if not len(self.gaps):
            return whole
        gaps = self.gaps[np.lexsort((self.gaps[:, 1], self.gaps[:, 0]))]
        # Around each gap the lifetime falls apart: cut starts and ends are sorted together.
        starts = np.concatenate([whole[:, [0, 1]], gaps[:, [0, 2]]])
        ends = np.concatenate([whole[:, [0, 2]], gaps[:, [0, 1]]])
        starts = starts[np.lexsort((starts[:, 1], starts[:, 0]))]
        ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
        rows = np.column_stack([starts, ends[:, 1]])
        return rows[rows[:, 1] < rows[:, 2]]

    def _column(
        self, field: str, values: Iterable[int] | IntColumn | None, default: int = 0
    ) -> IntColumn:
        if values is None:
            values = np.full(self.tensor_count, default, dtype=np.int64)
        column = frozen_column(field, values)
        self._require_length(field, len(column))
        return column

    def _flags(self, field: str, values: Iterable[bool] | BoolColumn) -> BoolColumn:
        listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
        for index, value in enumerate(listed):
            if not isinstance(value, bool):
                raise InstanceError(
                    f"field {field}, tensor {index}: true or false is needed, found {shown(value)}"
                )
        self._require_length(field, len(listed))
        return read_only(np.array(listed, dtype=np.bool_))

    def _require_length(self, field: str, found: int) -> None:
        if found != self.tensor_count:
            raise InstanceError(
                f"field {field}: one entry a tensor is needed, found {found} for "
                f"{self.tensor_count} tensors of field size"
            )

    def _take_lifetimes(
        self,
        start: Iterable[int] | IntColumn | None,
        end: Iterable[int] | IntColumn | None,
    ) -> None:
        if self.graph is not None and self.unsafe_pairs is not None:
            raise InstanceError("field unsafe_pairs: the graph decides safety; give one of the two")
        if self.safety is Safety.LIFETIMES:
            if start is None or end is None:
                raise InstanceError(
                    "fields start and end: something must decide safety; give lifetimes, a graph "
                    "or unsafe_pairs"
                )
        elif start is not None or end is not None:
            raise InstanceError(
                f"fields start and end: field {self._safety_field} decides safety; leave them out"
            )
        elif self.graph is not None:
            self._require_length("graph.producer", self.graph.tensor_count)
            start, end = self.graph.lifetimes()
        object.__setattr__(self, "start", self._column("start", start))
        object.__setattr__(self, "end", self._column("end", end))

    def _pinned_column(self, pinned: Mapping[int, int]) -> IntColumn:
        rows = frozen_rows("pinned", list(pinned.items()), width=2)
        self._require_tensors("pinned", rows[:, :1])
        wrong = np.flatnonzero(rows[:, 1] < 0)
        if len(wrong):
            tensor, offset = rows[wrong[0]]
            raise InstanceError(
                f"field pinned, tensor {tensor}: an offset is at least 0, found {offset}"
            )
        column = np.full(self.tensor_count, NOT_PINNED, dtype=np.int64)
        column[rows[:, 0]] = rows[:, 1]
        return read_only(column)

    def _require_tensors(self, field: str, rows: IntColumn) -> None:
        wrong = np.argwhere((rows < 0) | (rows >= self.tensor_count))
        if len(wrong):
            row, column = wrong[0]
            raise InstanceError(
                f"field {field}, entry {row}: tensors are numbered 0 to "
                f"{self.tensor_count - 1}, found {rows[row, column]}"
            )

    def _validate(self) -> None:
        self._validate_sizes()
        if self.safety is Safety.LIFETIMES:
            wrong = np.flatnonzero((self.start < -INT64_MAX // 2) | (self.end > INT64_MAX // 2))
            if len(wrong):
                raise InstanceError(
                    f"field start, tensor {wrong[0]}: steps must stay within 2**62, found "
                    f"[{self.start[wrong[0]]}, {self.end[wrong[0]]})"
                )
            wrong = np.flatnonzero(self.start >= self.end)
            if len(wrong):
                raise InstanceError(
                    f"field end, tensor {wrong[0]}: a lifetime [start, end) needs start < end, "
                    f"found [{self.start[wrong[0]]}, {self.end[wrong[0]]})"
                )
        if self.unsafe_pairs is not None:
            self._validate_pairs(self.unsafe_pairs)
        self._validate_chains()
        self._validate_gaps()
        if self.tensor_name is not None:
            self._require_length("tensor_name", len(self.tensor_name))

    def _validate_sizes(self) -> None:
        wrong = np.flatnonzero(self.size < 0)
        if len(wrong):
            raise InstanceError(
                f"field size, tensor {wrong[0]}: bytes are at least 0, found {self.size[wrong[0]]}"
            )
        a = self.alignment
        wrong = np.flatnonzero((a < 1) | (a > MAX_ALIGNMENT) | (a & (a - 1) != 0))
        if len(wrong):
            raise InstanceError(
                f"field alignment, tensor {wrong[0]}: a power of two up to 2**40 is needed, "
                f"found {a[wrong[0]]}"
            )
        # Whatever order a planner takes, no peak exceeds this; so no later sum can overflow. The
        # sum in floating point is off by far less than the room that is left above the limit.
        worst = float(np.maximum(self.pinned, 0).max(initial=0))
        worst += self.size.sum(dtype=np.float64) + a.sum(dtype=np.float64)
        if worst > MAX_TOTAL_BYTES:
            raise InstanceError(
                f"field size: sizes, alignments and the largest pin together must stay below "
                f"2**61 bytes, found {worst:.4g}; the largest is tensor {np.argmax(self.size)} "
                f"with {self.size.max()}"
            )

    def _validate_pairs(self, pairs: IntColumn) -> None:
        self._require_tensors("unsafe_pairs", pairs)
        wrong = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
        if len(wrong):
            raise InstanceError(
                f"field unsafe_pairs, entry {wrong[0]}: two different tensors are needed, found "
                f"{pairs[wrong[0], 0]} twice"
            )

    def _validate_chains(self) -> None:
        chain_of: dict[int, int] = {}
        for index, chain in enumerate(self.contiguous):
            if len(chain) < 2:
                raise InstanceError(
                    f"field contiguous, chain {index}: at least two tensors, found {len(chain)}"
                )
            for tensor in chain:
                if not 0 <= tensor < self.tensor_count:
                    raise InstanceError(
                        f"field contiguous, chain {index}: tensors are numbered 0 to "
                        f"{self.tensor_count - 1}, found {tensor}"
                    )
                if tensor in chain_of:
                    raise InstanceError(
                        f"field contiguous, chain {index}: a tensor is in at most one chain and "
                        f"once, found tensor {tensor} in chain {chain_of[tensor]} already"
                    )
                chain_of[tensor] = index

    def _validate_gaps(self) -> None:
        if not len(self.gaps):
            return
        if self.safety is not Safety.LIFETIMES:
            raise InstanceError(
                f"field gaps: gaps are parts of lifetimes, and field {self._safety_field} decides "
                f"safety here; leave them out"
            )
        self._require_tensors("gaps", self.gaps[:, :1])
        tensor, first, last = self.gaps.T
        outside = (first >= last) | (first < self.start[tensor]) | (last > self.end[tensor])
        for index in np.flatnonzero(outside)[:1]:
            raise InstanceError(
                f"field gaps, tensor {tensor[index]}: a gap lies within the lifetime "
                f"[{self.start[tensor[index]]}, {self.end[tensor[index]]}), found "
                f"[{first[index]}, {last[index]})"
            )
        order = np.lexsort((first, tensor))
        same = tensor[order][1:] == tensor[order][:-1]
        for index in np.flatnonzero(same & (first[order][1:] < last[order][:-1]))[:1]:
            raise InstanceError(
                f"field gaps, tensor {tensor[order][index]}: the gaps of a tensor may not overlap"
            )
        length = np.zeros(self.tensor_count, dtype=np.int64)
        np.add.at(length, tensor, last - first)
        for index in np.flatnonzero(length >= self.end - self.start)[:1]:
            raise InstanceError(
                f"field gaps, tensor {index}: some step of the lifetime must be left, found gaps "
                f"over all of [{self.start[index]}, {self.end[index]})"
            )


def _as_chains(chains: Iterable[Sequence[int] | IntColumn]) -> tuple[tuple[int, ...], ...]:
    offsets, tensors = frozen_lists("contiguous", chains, entry="chain")
    return tuple(tuple(tensors[a:b].tolist()) for a, b in pairwise(offsets.tolist()))


def _as_capacity(capacity: int | None) -> int | None:
    if capacity is None:
        return None
    if not is_integer_type(type(capacity)) or not 0 <= capacity <= INT64_MAX:
        raise InstanceError(
            f"field capacity: whole bytes from 0 to 2**63 - 1 are needed, found {shown(capacity)}"
        )
    return int(capacity)


def _as_name(name: str) -> str:
    if not isinstance(name, str) or not name.isprintable():
        raise InstanceError(
            f"field name: a string of printable characters is needed, found {shown(name)}"
        )
    return name


def _as_origin(origin: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    if not isinstance(origin, Mapping):
        raise InstanceError(f"field origin: an object is needed, found {shown(origin)}")
    for key, value in origin.items():
        if not isinstance(key, str) or not key.isprintable():
            raise InstanceError(
                f"field origin: keys of printable characters are needed, found {shown(key)}"
            )
        if not _is_scalar(value):
            raise InstanceError(
                f"field origin, key {shown(key)}: a string of Unicode characters, a whole number "
                f"that fits int64, a finite number or a boolean is needed, found {shown(value)}"
            )
    return MappingProxyType(dict(origin))


def _is_scalar(value: object) -> bool:
    if isinstance(value, str):
        # A lone half of a surrogate pair is in no text file.
        return not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, int):
        return -INT64_MAX <= value <= INT64_MAX
    return isinstance(value, float) and math.isfinite(value)
