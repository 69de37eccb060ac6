"""The Dynamic Reusable Space: the static pool's idle addresses, per group of dynamic tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planners.dynamic.idle_space import idle_space
from planners.dynamic.layer_groups import LayerGroups, layer_groups
from planners.dynamic.static_part import static_part
from planners.errors import InstanceError
from planners.model.columns import BoolColumn, IntColumn, frozen_column, frozen_rows
from planners.model.plan import Plan
from planners.model.problem import Problem

# No step is further from 0, so that the negatives of steps fit int64 as well.
MAX_STEP = 1 << 62

Visit = tuple[int, int]
Rows = Iterable[Sequence[int]] | IntColumn


@dataclass(frozen=True, eq=False, init=False)
class ReusableSpace:
    """The addresses of the static pool in which each group of dynamic tensors may lie.

    The arrays are flat int64 arrays, which compiled code can read directly. Group ``g`` may lie in
    the rows ``offsets[space[g]]`` to ``offsets[space[g] + 1]``, exclusive, of `intervals`.

    Source: Huang et al. 2026, section 5.2, equations 2 to 5.
    """

    # Bytes of the static pool.
    pool: int
    # One row for each group, ascending, no two of them equal; columns as in
    # :class:`planners.dynamic.layer_groups.LayerGroups`.
    visits: IntColumn
    # One row for each group: the steps ``[begin, end)`` over which its addresses are idle.
    times: IntColumn
    # One entry for each group: the number of its list of intervals; groups may share a list.
    space: IntColumn
    # The row of `intervals` at which each list begins, and then the number of all rows.
    offsets: IntColumn
    # Rows ``[start, end)`` in bytes; within a list ascending, and apart by at least a byte.
    intervals: IntColumn

    def __init__(
        self,
        pool: int,
        visits: Rows,
        times: Rows,
        space: Iterable[int] | IntColumn,
        offsets: Iterable[int] | IntColumn,
        intervals: Rows,
    ) -> None:
        def put(field: str, value: object) -> None:
            object.__setattr__(self, field, value)

        put("pool", int(pool))
        put("visits", frozen_rows("visits", visits, width=4))
        put("times", frozen_rows("times", times, width=2))
        put("space", frozen_column("space", space, "group"))
        put("offsets", frozen_column("offsets", offsets, "list"))
        put("intervals", frozen_rows("intervals", intervals, width=2))
        self._validate()

    @property
    def group_count(self) -> int:
        """Number of groups."""
        return len(self.visits)

    def group_of(self, allocates: Visit, frees: Visit) -> int | None:
        """Return the group that one visit allocates and another frees; None if there is none."""
        return self._group_at.get((*allocates, *frees))

    def idle_intervals(self, group: int) -> IntColumn:
        """Return the addresses that are idle for a group's whole time, as rows ``[start, end)``."""
        list_ = self.space[group]
        return self.intervals[self.offsets[list_] : self.offsets[list_ + 1]]

    def best_fit(
        self, group: int, size: int, free: IntColumn | None = None, alignment: int = 1
    ) -> int | None:
        """Return the offset at which a tensor leaves the least room over; None if it fits nowhere.

        `free` has the rows ``[start, end)`` of the pool that are free right now, ascending and
        disjoint. It is None if the pool holds nothing but tensors of the static plan.

        Source: Huang et al. 2026, section 6.2, equation 6.
        """
        candidates = self.idle_intervals(group)
        if free is not None:
            candidates = intersection(candidates, free)
        start = -(-candidates[:, 0] // alignment) * alignment
        room = candidates[:, 1] - start
        fitting = np.flatnonzero(room >= size)
        if not len(fitting):
            return None
        return int(start[fitting[room[fitting].argmin()]])

    def same_as(self, other: ReusableSpace) -> bool:
        """Return True if another space has the same groups and intervals."""
        return self.pool == other.pool and all(
            np.array_equal(getattr(self, column), getattr(other, column))
            for column in ("visits", "times", "space", "offsets", "intervals")
        )

    @cached_property
    def _group_at(self) -> dict[tuple[int, ...], int]:
        return {tuple(row): group for group, row in enumerate(self.visits.tolist())}

    def _validate(self) -> None:
        groups, lists = len(self.visits), len(self.offsets) - 1
        if self.pool < 0:
            raise InstanceError(f"field pool: bytes are at least 0, found {self.pool}")
        for column in ("times", "space"):
            found = len(getattr(self, column))
            if found != groups:
                raise InstanceError(
                    f"field {column}: one entry a group is needed, found {found} for {groups} "
                    f"groups of field visits"
                )
        _require("visits", _ascends(self.visits), self.visits, "groups ascend, and each is once")
        begin, end = self.times.T
        in_order = (begin < end) & (begin >= -MAX_STEP) & (end <= MAX_STEP)
        _require("times", in_order, self.times, "[begin, end), begin < end and within 2**62")
        _require(
            "space", (self.space >= 0) & (self.space < lists), self.space, f"a list below {lists}"
        )
        begins = np.concatenate([[0], self.offsets[:-1]])
        _require("offsets", self.offsets >= begins, self.offsets, "lists follow each other from 0")
        if lists < 0 or self.offsets[0] != 0 or self.offsets[-1] != len(self.intervals):
            raise InstanceError(
                f"field offsets: from 0 to the number of intervals, {len(self.intervals)}, is "
                f"needed, found {self.offsets[[0, -1]].tolist() if lists >= 0 else 'nothing'}"
            )
        self._validate_intervals()

    def _validate_intervals(self) -> None:
        start, end = self.intervals.T
        before = np.concatenate([[-1], end[:-1]])[: len(end)]
        # The first interval of a list has none before it.
        firsts = self.offsets[:-1]
        before[firsts[firsts < len(end)]] = -1
        right = (start > before) & (start < end) & (end <= self.pool)
        _require(
            "intervals", right, self.intervals,
            f"[start, end) behind the one before and within the pool of {self.pool} bytes",
        )  # fmt: skip


def reusable_space(problem: Problem, static_plan: Plan) -> ReusableSpace:
    """Return the Dynamic Reusable Space of a problem under a plan of its static tensors."""
    return space_of_groups(static_part(problem).problem, static_plan, layer_groups(problem))


def space_of_groups(static: Problem, plan: Plan, groups: LayerGroups) -> ReusableSpace:
    """Return the Dynamic Reusable Space of given groups."""
    space, offsets, intervals = idle_space(static, plan, groups.times)
    return ReusableSpace(plan.peak, groups.visits, groups.times, space, offsets, intervals)


def intersection(a: IntColumn, b: IntColumn) -> IntColumn:
    """Return the intersection of two lists of ascending, disjoint intervals, as such a list."""
    # A row of `a` meets the rows of `b` that end after its start and start before its end.
    first = np.searchsorted(b[:, 1], a[:, 0], side="right")
    count = np.maximum(np.searchsorted(b[:, 0], a[:, 1], side="left") - first, 0)
    row = np.repeat(np.arange(len(a)), count)
    other = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + first[row]
    return np.column_stack([np.maximum(a[row, 0], b[other, 0]), np.minimum(a[row, 1], b[other, 1])])


def _ascends(rows: IntColumn) -> BoolColumn:
    """Return for each row whether it is above the row before it in lexicographic order."""
    ascends = np.zeros(len(rows), dtype=np.bool_)
    ascends[:1] = True
    first = (rows[1:] != rows[:-1]).argmax(axis=1)
    row = np.arange(len(first))
    ascends[1:] = rows[row + 1, first] > rows[row, first]
    return ascends


def _require(field: str, right: BoolColumn, values: IntColumn, rule: str) -> None:
    for row in np.flatnonzero(~right)[:1].tolist():
        raise InstanceError(f"field {field}, row {row}: {rule}, found {values[row].tolist()}")
