"""The problem: tensors, which pairs may share bytes, and conditions on their offsets."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from planners._core import Instance
from planners.errors import InstanceError
from planners.model import rules
from planners.model.blocks import make_blocks
from planners.model.columns import BoolColumn, IntColumn, frozen_names, frozen_rows
from planners.model.core_instance import make_core_instance
from planners.model.graph import Graph
from planners.model.known_bounds import KnownBounds
from planners.model.memories import Memory, take_memories
from planners.model.places import require_places
from planners.model.problem_fields import ProblemFields
from planners.model.problem_fields import Safety as Safety
from planners.model.problem_fields import Scalar as Scalar
from planners.model.selection import selected_fields
from planners.text.byte_units import both_bytes, counted
from planners.text.plain_text import shown


@dataclass(frozen=True, eq=False, init=False)
class Problem(ProblemFields):
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
        Offsets that are given, as ``{tensor: offset}`` or as a column with -1 for none.
    gaps
        Rows ``(tensor, start, end)``: steps within its lifetime in which a tensor needs no
        memory. Only where lifetimes decide safety.
    reuse_prices
        Rows ``(tensor, tensor, price)``: what it costs if the two share a byte. With a capacity,
        the best plan is the one within the capacity that costs least.
    together
        Groups of at least two tensors that begin at one offset and may share bytes; none of them
        is in a chain.
    apart
        Pairs that may not share bytes, whatever decides safety.
    exclusive
        Pairs that may share bytes, whatever decides safety: they never live at once.
    memories
        Ranges of one address space, see :class:`planners.Memory`. Offsets are addresses then. The
        best plan is the one that costs least, of those in which every tensor lies in a memory.
    places
        Rows ``(tensor, memory, cost)``: the memories in which a tensor may lie, and what it costs
        there. A tensor without a row may lie in every memory at no cost.
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
        pinned: Mapping[int, int] | IntColumn | None = None,
        gaps: Iterable[Sequence[int]] | IntColumn = (),
        reuse_prices: Iterable[Sequence[int]] | IntColumn = (),
        together: Iterable[Sequence[int] | IntColumn] = (),
        apart: Iterable[Sequence[int]] | IntColumn = (),
        exclusive: Iterable[Sequence[int]] | IntColumn = (),
        memories: Iterable[Memory] = (),
        places: Iterable[Sequence[int]] | IntColumn = (),
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

        put("size", rules.take_sizes(size))
        tensors = self.tensor_count
        put("alignment", rules.take_column("alignment", alignment, tensors, default=1))
        put("graph", graph)
        put("unsafe_pairs", None)
        if unsafe_pairs is not None:
            put("unsafe_pairs", frozen_rows("unsafe_pairs", unsafe_pairs, width=2))
        rules.require_one_decider(graph, self.unsafe_pairs, start, end)
        if graph is not None:
            rules.require_length("graph.producer", graph.tensor_count, tensors)
            start, end = graph.lifetimes()
        put("start", rules.take_column("start", start, tensors))
        put("end", rules.take_column("end", end, tensors))
        put("contiguous", rules.take_lists("contiguous", "chain", contiguous))
        put("together", rules.take_lists("together", "group", together))
        put("memories", take_memories(memories))
        put("pinned", rules.take_pins(pinned, tensors))
        for field, rows, width in (
            ("gaps", gaps, 3),
            ("reuse_prices", reuse_prices, 3),
            ("apart", apart, 2),
            ("exclusive", exclusive, 2),
            ("places", places, 3),
        ):
            put(field, frozen_rows(field, rows, width=width))
        put("capacity", rules.take_capacity(capacity))
        for field, values in (
            ("phase_start", phase_start),
            ("phase_end", phase_end),
            ("layer_start", layer_start),
            ("layer_end", layer_end),
        ):
            put(field, None if values is None else rules.take_column(field, values, tensors))
        put("dynamic", None if dynamic is None else rules.take_flags("dynamic", dynamic, tensors))
        put("tensor_name", None)
        if tensor_name is not None:
            put("tensor_name", frozen_names("tensor_name", tensor_name, entry="tensor"))
        put("name", rules.take_name(name))
        put("origin", rules.take_origin({} if origin is None else origin))
        rules.require_rules(self)
        require_places(self)
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
        if len(self.reuse_prices):
            parts.append(counted(len(self.reuse_prices), "price") + " of reuse")
        if self.memories:
            parts.append(", ".join(memory.name for memory in self.memories))
        return f"<Problem {shown(self.name)}: {', '.join(parts)}>"

    @cached_property
    def core(self) -> Instance:
        """The problem in the C++ core's form; made once and shared by every planner."""
        return make_core_instance(self)

    @cached_property
    def known_bounds(self) -> KnownBounds:
        # The module `bounds` fills them in on request.
        return KnownBounds()

    def with_capacity(self, capacity: int | None) -> Problem:
        """Return the same problem with another capacity; None asks for the smallest peak."""
        if capacity is not None and self.memories:
            raise InstanceError("field capacity: each memory has its own; leave it out")
        return self._copy_with("capacity", rules.take_capacity(capacity))

    def with_name(self, name: str) -> Problem:
        """Return the same problem under another name."""
        return self._copy_with("name", rules.take_name(name))

    def select(self, tensors: Iterable[int] | IntColumn, **changes: Any) -> Problem:
        """Return the problem of some tensors, numbered in the order in which they are given.

        Columns, names, pins, gaps and prices come along with their tensors, and so does a chain if
        all of its members are chosen. Two chosen tensors are unsafe if and only if they were
        before: all nodes of a graph stay, and the arcs of the tensors that are left out become
        control arcs.

        Parameters
        ----------
        tensors
            Each at most once.
        **changes
            Fields of the selection that differ, in the constructor's form. If they include another
            field that decides safety (lifetimes, ``graph`` or ``unsafe_pairs``), it replaces the
            present one.

        Raises
        ------
        InstanceError
            A tensor does not exist or comes twice, a part of a chain is chosen and ``contiguous``
            is not given, or the changes break a rule.
        """
        return Problem(**selected_fields(self, tensors, changes))

    def _copy_with(self, field: str, value: object) -> Problem:
        _ = self.known_bounds  # no bound depends on the capacity or the name
        problem = copy.copy(self)
        object.__setattr__(problem, field, value)
        return problem
