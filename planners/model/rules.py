"""The rules of a problem: how each field is read, and the message for each broken rule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from planners.errors import InstanceError
from planners.model.blocks import NOT_PINNED
from planners.model.columns import (
    INT64_MAX,
    BoolColumn,
    IntColumn,
    frozen_column,
    frozen_lists,
    frozen_rows,
    listed_values,
    read_only,
    require_each,
    whole_bytes,
)
from planners.model.graph import Graph
from planners.model.problem_fields import ProblemFields, Scalar
from planners.text.plain_text import shown

# Limits the tensors of a problem, before memory for them is taken. A guess.
MAX_TENSORS = 20_000_000
# Limits an alignment, in bytes. A guess.
MAX_ALIGNMENT = 1 << 40
# Limits the sum of sizes, alignments and the largest pin, so that no later sum overflows.
MAX_TOTAL_BYTES = 1 << 61
# Limits the sum of all prices of reuse, which every float holds exactly.
MAX_TOTAL_PRICE = 1 << 53


def take_sizes(size: Iterable[int] | IntColumn) -> IntColumn:
    """Return the column of sizes, whose length is the number of tensors."""
    column = frozen_column("size", size)
    if len(column) > MAX_TENSORS:
        raise InstanceError(f"field size: at most {MAX_TENSORS} tensors, found {len(column)}")
    return column


def take_column(
    field: str, values: Iterable[int] | IntColumn | None, tensors: int, default: int = 0
) -> IntColumn:
    """Return a column of one integer for each tensor."""
    if values is None:
        values = np.full(tensors, default, dtype=np.int64)
    column = frozen_column(field, values)
    require_length(field, len(column), tensors)
    return column


def take_flags(field: str, values: Iterable[bool] | BoolColumn, tensors: int) -> BoolColumn:
    """Return a column of one boolean for each tensor."""
    listed = listed_values(field, values.tolist() if isinstance(values, np.ndarray) else values)
    for index, value in enumerate(listed):
        if not isinstance(value, bool):
            raise InstanceError(
                f"field {field}, tensor {index}: true or false is needed, found {shown(value)}"
            )
    require_length(field, len(listed), tensors)
    return read_only(np.array(listed, dtype=np.bool_))


def require_length(field: str, found: int, tensors: int) -> None:
    """Raise unless a field has one entry for each tensor."""
    if found != tensors:
        raise InstanceError(
            f"field {field}: one entry a tensor is needed, found {found} for "
            f"{tensors} tensors of field size"
        )


def require_one_decider(
    graph: Graph | None, unsafe_pairs: IntColumn | None, start: object, end: object
) -> None:
    """Raise unless exactly one of lifetimes, graph and pairs is given."""
    if not isinstance(graph, Graph | None):
        raise InstanceError(f"field graph: a Graph is needed, found {shown(graph)}")
    if graph is not None and unsafe_pairs is not None:
        raise InstanceError("field unsafe_pairs: the graph decides safety; give one of the two")
    if graph is None and unsafe_pairs is None:
        if start is None or end is None:
            raise InstanceError(
                "fields start and end: something must decide safety; give lifetimes, a graph "
                "or unsafe_pairs"
            )
    elif start is not None or end is not None:
        raise InstanceError(
            f"fields start and end: field {_decider(graph)} decides safety; leave them out"
        )


def take_pins(pinned: Mapping[int, int] | IntColumn | None, tensors: int) -> IntColumn:
    """Return the column of pins; it may be given as a mapping or as a column."""
    if isinstance(pinned, np.ndarray):
        column = take_column("pinned", pinned, tensors)
        _require_pins(np.flatnonzero(column != NOT_PINNED), column[column != NOT_PINNED])
        return column
    if pinned is not None and not isinstance(pinned, Mapping):
        raise InstanceError(
            f"field pinned: {{tensor: offset}} or a column is needed, found {shown(pinned)}"
        )
    rows = frozen_rows("pinned", list((pinned or {}).items()), width=2)
    _require_tensors("pinned", rows[:, :1], tensors)
    _require_pins(rows[:, 0], rows[:, 1])
    column = np.full(tensors, NOT_PINNED, dtype=np.int64)
    column[rows[:, 0]] = rows[:, 1]
    return read_only(column)


def take_lists(
    field: str, entry: str, lists: Iterable[Sequence[int] | IntColumn]
) -> tuple[tuple[int, ...], ...]:
    """Return lists of tensors as tuples."""
    offsets, tensors = frozen_lists(field, lists, entry=entry)
    return tuple(tuple(tensors[a:b].tolist()) for a, b in pairwise(offsets.tolist()))


def take_capacity(capacity: int | None) -> int | None:
    """Return a capacity in bytes, or None."""
    return None if capacity is None else whole_bytes("capacity", capacity)


def take_name(name: str) -> str:
    """Return a name that can be printed."""
    if not isinstance(name, str) or not name.isprintable():
        raise InstanceError(
            f"field name: a string of printable characters is needed, found {shown(name)}"
        )
    return name


def take_origin(origin: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """Return a problem's origin as an immutable table of scalars."""
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
        # A text file cannot hold a lone half of a surrogate pair.
        return not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, int):
        return -INT64_MAX <= value <= INT64_MAX
    return isinstance(value, float) and math.isfinite(value)


def require_rules(problem: ProblemFields) -> None:
    """Raise if a rule is broken that involves more than one field."""
    _require_sizes(problem)
    if problem.graph is None and problem.unsafe_pairs is None:
        _require_lifetimes(problem.start, problem.end)
    if problem.unsafe_pairs is not None:
        _require_pairs(problem.unsafe_pairs, problem.tensor_count)
    _require_lists("contiguous", "chain", problem.contiguous, problem.tensor_count)
    _require_classes(problem)
    _require_gaps(problem)
    _require_prices(problem.reuse_prices, problem.tensor_count)
    _require_tensors("places", problem.places[:, :1], problem.tensor_count)
    if problem.tensor_name is not None:
        require_length("tensor_name", len(problem.tensor_name), problem.tensor_count)


def _require_lifetimes(start: IntColumn, end: IntColumn) -> None:
    found, steps = np.column_stack((start, end)), "[{}, {})".format
    near = (start >= -INT64_MAX // 2) & (end <= INT64_MAX // 2)
    rule = "steps must stay within 2**62"
    require_each("start", "tensor", near, rule, found, lambda row: steps(*row))
    rule = "a lifetime [start, end) needs start < end"
    require_each("end", "tensor", start < end, rule, found, lambda row: steps(*row))


def _require_sizes(problem: ProblemFields) -> None:
    size, a = problem.size, problem.alignment
    require_each("size", "tensor", size >= 0, "bytes are at least 0", size)
    right = (a >= 1) & (a <= MAX_ALIGNMENT) & (a & (a - 1) == 0)
    require_each("alignment", "tensor", right, "a power of two up to 2**40 is needed", a)
    # No peak of any planner exceeds this sum, so no later sum can overflow. The floating-point sum
    # is off by far less than the room above the limit.
    worst = float(np.maximum(problem.pinned, 0).max(initial=0))
    worst += size.sum(dtype=np.float64) + a.sum(dtype=np.float64)
    if worst > MAX_TOTAL_BYTES:
        raise InstanceError(
            f"field size: sizes, alignments and the largest pin together must stay below "
            f"2**61 bytes, found {worst:.4g}; the largest is tensor {np.argmax(size)} "
            f"with {size.max()}"
        )


def _require_pairs(pairs: IntColumn, tensors: int, field: str = "unsafe_pairs") -> None:
    _require_tensors(field, pairs, tensors)
    differ = pairs[:, 0] != pairs[:, 1]
    rule = "two different tensors are needed"
    require_each(field, "entry", differ, rule, pairs, lambda row: f"{row[0]} twice")


def _require_prices(rows: IntColumn, tensors: int) -> None:
    pairs, price = rows[:, :2], rows[:, 2]
    _require_pairs(pairs, tensors, "reuse_prices")
    require_each("reuse_prices", "entry", price >= 1, "a price is at least 1", price)
    # No cost of any plan exceeds this sum, so no later sum can overflow.
    if price.sum(dtype=np.float64) > MAX_TOTAL_PRICE:
        raise InstanceError(
            f"field reuse_prices: all prices together must stay below 2**53, found "
            f"{price.sum(dtype=np.float64):.4g}"
        )
    _, first = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    for entry in np.setdiff1d(np.arange(len(rows)), first)[:1].tolist():
        raise InstanceError(
            f"field reuse_prices, entry {entry}: a pair has one price, found tensors "
            f"{pairs[entry, 0]} and {pairs[entry, 1]} again"
        )


def _require_lists(
    field: str, entry: str, lists: tuple[tuple[int, ...], ...], tensors: int
) -> None:
    list_of: dict[int, int] = {}
    for index, members in enumerate(lists):
        where = f"field {field}, {entry} {index}"
        if len(members) < 2:
            raise InstanceError(f"{where}: at least two tensors, found {len(members)}")
        for tensor in members:
            if not 0 <= tensor < tensors:
                raise InstanceError(
                    f"{where}: tensors are numbered 0 to {tensors - 1}, found {tensor}"
                )
            if tensor in list_of:
                raise InstanceError(
                    f"{where}: a tensor is in at most one {entry} and once, found tensor {tensor} "
                    f"in {entry} {list_of[tensor]} already"
                )
            list_of[tensor] = index


def _require_classes(problem: ProblemFields) -> None:
    """Raise unless groups, pairs apart and exclusive agree with each other and with chains."""
    if not problem.has_classes:
        return
    _require_lists("together", "group", problem.together, problem.tensor_count)
    _require_pairs(problem.apart, problem.tensor_count, "apart")
    _require_pairs(problem.exclusive, problem.tensor_count, "exclusive")
    chained = {tensor for chain in problem.contiguous for tensor in chain}
    group_of = {tensor: index for index, group in enumerate(problem.together) for tensor in group}
    for tensor in sorted(chained & group_of.keys())[:1]:
        raise InstanceError(
            f"field together, group {group_of[tensor]}: no tensor of it is in a chain, found "
            f"tensor {tensor}"
        )
    for index, group in enumerate(problem.together):
        pins = {int(problem.pinned[tensor]) for tensor in group} - {NOT_PINNED}
        alignment = int(problem.alignment[list(group)].max())
        if len(pins) > 1 or any(pin % alignment for pin in pins):
            raise InstanceError(
                f"field pinned: the tensors of group {index} begin at one offset, a multiple of "
                f"{alignment}, found pins at {sorted(pins)}"
            )
    exclusive = {tuple(sorted(pair)) for pair in problem.exclusive.tolist()}
    for entry, (a, b) in enumerate(problem.apart.tolist()):
        if group_of.get(a, -1) == group_of.get(b, -2):
            raise InstanceError(
                f"field apart, entry {entry}: tensors of a group lie together, found {a} and {b}"
            )
        if (min(a, b), max(a, b)) in exclusive:
            raise InstanceError(
                f"field apart, entry {entry}: found {a} and {b}, which are exclusive as well"
            )


def _require_gaps(problem: ProblemFields) -> None:
    if not len(problem.gaps):
        return
    if problem.graph is not None or problem.unsafe_pairs is not None:
        raise InstanceError(
            f"field gaps: gaps are parts of lifetimes, and field {_decider(problem.graph)} decides "
            f"safety here; leave them out"
        )
    _require_tensors("gaps", problem.gaps[:, :1], problem.tensor_count)
    tensor, first, last = problem.gaps.T
    outside = (first >= last) | (first < problem.start[tensor]) | (last > problem.end[tensor])
    for index in np.flatnonzero(outside)[:1]:
        raise InstanceError(
            f"field gaps, tensor {tensor[index]}: a gap lies within the lifetime "
            f"[{problem.start[tensor[index]]}, {problem.end[tensor[index]]}), found "
            f"[{first[index]}, {last[index]})"
        )
    order = np.lexsort((first, tensor))
    same = tensor[order][1:] == tensor[order][:-1]
    for index in np.flatnonzero(same & (first[order][1:] < last[order][:-1]))[:1]:
        raise InstanceError(
            f"field gaps, tensor {tensor[order][index]}: the gaps of a tensor may not overlap"
        )
    length = np.zeros(problem.tensor_count, dtype=np.int64)
    np.add.at(length, tensor, last - first)
    for index in np.flatnonzero(length >= problem.end - problem.start)[:1]:
        raise InstanceError(
            f"field gaps, tensor {index}: some step of the lifetime must be left, found gaps "
            f"over all of [{problem.start[index]}, {problem.end[index]})"
        )


def _require_pins(tensors: IntColumn, offsets: IntColumn) -> None:
    right = offsets >= 0
    require_each("pinned", "tensor", right, "an offset is at least 0", offsets, index=tensors)


def _require_tensors(field: str, rows: IntColumn, tensors: int) -> None:
    # Row by row, so that the message names the number that is wrong.
    index = np.repeat(np.arange(len(rows)), rows.shape[1])
    right = (rows >= 0) & (rows < tensors)
    rule = f"tensors are numbered 0 to {tensors - 1}"
    require_each(field, "entry", right.ravel(), rule, rows.ravel(), index=index)


def _decider(graph: Graph | None) -> str:
    return "graph" if graph is not None else "unsafe_pairs"
