"""A lower bound on the seconds that a step under a limit takes more: a linear relaxation.

Note [The staged relaxation]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Rationale. Whatever runs again, and whenever: while a node of the step runs for the first time, the
device holds what this node reads and makes, and of every other tensor that somebody needs later it
holds a copy, or somebody makes one later. The bytes held are at most the limit.

Approach. A few first runs are the cuts; between two cuts lies a stage. For each tensor and cut a
variable in [0, 1] says whether the device holds the tensor there, and for each unit and stage
whether the unit runs again in the stage. The rows are:
(1) A first run in a stage reads a tensor that was held at the cut before, or made again in the
    stage, or first made in the stage.
(2) So does a second run.
(3) A tensor is held at a cut only if one of the same is true of the stage before.
(4) At a cut, the bytes held are at most the limit.
Where tensors may be sent away, a further variable says that a tensor is not held at a cut and
fetched in the stage behind it. Rows (1) to (3) know fetching as another way to have a tensor. What
a stage fetches, and all later ones, is copied after the cut, and was sent before it:
(5) The copies of what is fetched behind a cut take at most the time from the cut to the end of the
    step, and their sendings at most the time from the first node that makes one of them to the cut:
    each is the time that the nodes there take without a limit, and the extra time.
(6) The extra time is at least the sum of the seconds of second runs.
Every schedule satisfies the rows, however often units run and in whatever order the second runs
are. So the least extra time, over all values of the variables, is a lower bound. More cuts give
more rows and never a lower bound. The number of cuts doubles until the time is over.

A solver's floating-point answer proves nothing, so the bound is computed from its multipliers
alone. For any multipliers of at least 0, the minimum of the cost plus the multipliers times the
violations, over the box of the variables, is at most the optimum (weak duality). This is one sum.

Limits. Bytes while a second run is under way are not limited, so that a bound may be too low. This
is the formulation of Jain et al. 2020 (Checkmate), with few stages in place of one a node, relaxed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.model.budget import Budget
from planners.model.columns import BoolColumn, IntColumn
from planners.recompute.repeatable_step import RepeatableStep

CERTIFICATE = "staged-relaxation"
# The certificate of a limit below what a node uses and what cannot be dropped.
HELD_BYTES = "held-bytes"
MOST_CUTS = 64
# The status by which `scipy.optimize.linprog` says that no values satisfy the rows.
NO_SOLUTION = 2
# Rounding errors of a sum of products are far below this part of it. A guess on the safe side.
SAFE_SHARE = 1e-9

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StagedBound:
    """A proven lower bound on the seconds of second runs.

    Parameters
    ----------
    seconds
        No schedule within the limit takes fewer seconds more; infinite if there is none.
    repeated, sent
        For each unit, how often it runs again in the relaxed optimum; for each tensor, which part
        of it is sent away.
    cuts
        Number of cuts of the relaxation.
    certificate
        Name of the proof.
    """

    seconds: float
    repeated: Floats
    sent: Floats
    cuts: int
    certificate: str = CERTIFICATE


@dataclass
class _Rows:
    """Rows ``entries @ x <= right`` under construction."""

    row: list[NDArray[np.int64]]
    column: list[NDArray[np.int64]]
    value: list[Floats]
    right: list[Floats]
    count: int = 0

    def add(self, right: Floats, *terms: tuple[IntColumn, float]) -> None:
        """Add a row for each entry of `right`; a term with variable -1 is left out of its row."""
        rows = np.arange(self.count, self.count + len(right))
        for variable, value in terms:
            there = variable >= 0
            self.row.append(rows[there])
            self.column.append(variable[there])
            self.value.append(np.full(int(there.sum()), value))
        self.right.append(right)
        self.count += len(right)

    def add_sum(self, right: float, variable: IntColumn, value: Floats) -> None:
        """Add one row."""
        self.row.append(np.full(len(variable), self.count))
        self.column.append(variable)
        self.value.append(value)
        self.right.append(np.array([right]))
        self.count += 1


def staged_bound(step: RepeatableStep, limit: int, budget: Budget) -> StagedBound:
    """Return the best bound that the time allows.

    Parameters
    ----------
    step
        The step that shall stay within the limit.
    limit
        Bytes of tensors that may be live at once.
    budget
        Its time limit ends the doubling of the cuts; at least one relaxation is solved.
    """
    none = np.zeros(step.unit_count), np.zeros(step.graph.tensor_count)
    best = StagedBound(0.0, *none, 0)
    over = np.flatnonzero(step.live_bytes > limit)
    if not len(over):
        return best
    if held_bytes(step) > limit:
        return StagedBound(np.inf, *none, 1, HELD_BYTES)
    for relaxation, result in _relaxed(step, over, limit, budget):
        if result is None:
            return StagedBound(np.inf, *none, len(relaxation.cuts))
        least, values = result
        if least >= best.seconds:
            best = StagedBound(least, *relaxation.shares(values), len(relaxation.cuts))
    return best


def least_limit(step: RepeatableStep, budget: Budget) -> int:
    """Return bytes below which no limit can be met: the best bound that the time allows.

    It is the least limit for which a relaxation has a solution.
    """
    least = held_bytes(step)
    over = np.flatnonzero(step.live_bytes > least)
    if not len(over):
        return least
    for _, result in _relaxed(step, over, None, budget):
        if result is not None:
            least = max(least, math.ceil(result[0]))
    return least


def _relaxed(
    step: RepeatableStep, over: IntColumn, limit: int | None, budget: Budget
) -> Iterator[tuple[_Relaxation, tuple[float, Floats] | None]]:
    """Solve relaxations with more and more cuts, until the time is over.

    Yields each with a bound on its cost and the values of its variables; or None if it has no
    solution.
    """
    count = 1
    while True:
        started = time.monotonic()
        relaxation = _Relaxation(step, limit, _cuts(step, over, count))
        result, is_solved = relaxation.solve(budget.remaining_seconds())
        if is_solved:
            yield relaxation, result
        took = time.monotonic() - started
        count *= 2
        # Twice the cuts take more than twice the time.
        if not is_solved or result is None or 3 * took > budget.remaining_seconds():
            return
        if count > min(MOST_CUTS, 2 * len(over)):
            return


def held_bytes(step: RepeatableStep) -> int:
    """Return the bytes that no schedule stays below: what a node uses, and what cannot be dropped.

    While a node runs, the device holds what it reads and makes, and every tensor from before it
    that a later node reads and that can neither be made again nor sent away.
    """
    graph, size = step.graph, step.problem.size
    start, end = graph.lifetimes()
    stays = ~step.is_repeatable[step.unit_of_tensor] & ~step.is_sendable
    change = np.zeros(graph.node_count + 1, dtype=np.int64)
    np.add.at(change, start[stays], size[stays])
    np.add.at(change, end[stays], -size[stays])
    held = np.cumsum(change)[:-1]
    # The other tensors count where a node reads or makes them.
    pairs = np.unique(
        np.column_stack(
            (
                np.concatenate((graph.consumer_nodes, graph.producer)),
                np.concatenate((graph.consumer_tensors, np.arange(graph.tensor_count))),
            )
        ),
        axis=0,
    )
    pairs = pairs[~stays[pairs[:, 1]]]
    np.add.at(held, pairs[:, 0], size[pairs[:, 1]])
    return int(held.max(initial=0))


def _cuts(step: RepeatableStep, over: IntColumn, count: int) -> IntColumn:
    """Return nodes at which more bytes than the limit are live: the largest, and evenly others."""
    largest = over[np.argmax(step.live_bytes[over])]
    places = np.linspace(0, len(over) - 1, count + 1)[1:].astype(np.int64)
    return np.unique(np.append(over[places[: count - 1]], largest))


class _Relaxation:
    """The variables and rows of one relaxation.

    Without a limit the limit itself is a variable, in parts of the given order's peak, and the
    cost.
    """

    def __init__(self, step: RepeatableStep, limit: int | None, cuts: IntColumn) -> None:
        self._step = step
        self.cuts = cuts
        graph = step.graph
        self._producer = graph.producer
        tensors = graph.tensor_count
        firsts = np.array([nodes[0] for nodes in step.nodes_of_unit], dtype=np.int64)
        # The pairs of a repeatable unit and a tensor that it reads and does not make.
        reader_units = step.unit_of_node[graph.consumer_nodes]
        reads = step.is_repeatable[reader_units] & (
            step.unit_of_tensor[graph.consumer_tensors] != reader_units
        )
        self._inputs = np.unique(
            np.column_stack((reader_units[reads], graph.consumer_tensors[reads])), axis=0
        )
        is_input = np.zeros(tensors, dtype=bool)
        is_input[self._inputs[:, 1]] = True
        _, end = graph.lifetimes()
        self.variable_count = 0
        # Variable of each tensor at each cut, and of each unit in each stage; -1 for none.
        self._held: list[IntColumn] = []
        self._again: list[IntColumn] = []
        self._fetched: list[IntColumn] = []
        for index, cut in enumerate(cuts.tolist()):
            self._held.append(
                self._numbered(
                    (self._producer < cut) & ((end > cut + 1) | is_input | self._touches(cut))
                )
            )
            last = cuts[index + 1] if index + 1 < len(cuts) else graph.node_count
            self._again.append(self._numbered(step.is_repeatable & (firsts < last)))
            self._fetched.append(self._numbered(step.is_sendable & (self._held[-1] >= 0)))
        # In parts of the limit, so that the numbers of all rows are alike.
        self._scale = float(max(1, int(step.live_bytes.max()) if limit is None else limit))
        # The last variable is the cost: the limit itself, or the extra time.
        self._last = self.variable_count
        self.variable_count += 1
        self._is_limit = limit is None
        again_seconds = step.unit_seconds[step.is_repeatable].sum()
        copy_seconds = 2 * step.problem.size[step.is_sendable].sum() * step.copy_seconds
        self._most_seconds = float(len(cuts) * again_seconds + copy_seconds) or 1.0
        self._rows = _Rows([], [], [], [])
        for index in range(len(cuts)):
            self._add_stage(index)
            self._add_cut(index)
            if step.may_send:
                self._add_copies(index)
        self._add_seconds()

    @property
    def _unit_of_cost(self) -> float:
        """Bytes or seconds for which the last variable stands if it is 1."""
        return self._scale if self._is_limit else self._most_seconds

    def solve(self, seconds: float) -> tuple[tuple[float, Floats] | None, bool]:
        """Return a lower bound on the cost and the optimal values, or None; and if it is solved."""
        # Imported here because scipy takes longer to import than the rest of the package.
        from scipy.optimize import linprog
        from scipy.sparse import csr_array

        solve: Any = linprog  # its types know no sparse matrices

        rows = self._rows
        matrix = csr_array(
            (np.concatenate(rows.value), (np.concatenate(rows.row), np.concatenate(rows.column))),
            shape=(rows.count, self.variable_count),
        )
        right = np.concatenate(rows.right)
        cost = np.zeros(self.variable_count)
        cost[self._last] = 1.0
        options = {"time_limit": seconds} if np.isfinite(seconds) else {}
        found = solve(cost, matrix, right, bounds=(0, 1), method="highs", options=options)
        if found.status == NO_SOLUTION:
            return None, True
        if found.status != 0:
            return None, False
        multipliers = np.maximum(0, -found.ineqlin.marginals)
        least = np.minimum(0, cost + multipliers @ matrix).sum() - multipliers @ right
        safe = float(least - SAFE_SHARE * (multipliers @ abs(right) + abs(least)))
        return (max(0.0, safe) * self._unit_of_cost, found.x), True

    def shares(self, values: Floats) -> tuple[Floats, Floats]:
        """Return how often each unit runs again, and which part of each tensor is sent away."""
        repeated = np.zeros(self._step.unit_count)
        sent = np.zeros(self._step.graph.tensor_count)
        for again, fetched in zip(self._again, self._fetched, strict=True):
            there = again >= 0
            repeated[there] += values[again[there]]
            there = fetched >= 0
            sent[there] = np.maximum(sent[there], values[fetched[there]])
        return repeated, sent

    def _numbered(self, chosen: BoolColumn) -> IntColumn:
        variable = np.full(len(chosen), -1, dtype=np.int64)
        count = int(chosen.sum())
        variable[chosen] = np.arange(self.variable_count, self.variable_count + count)
        self.variable_count += count
        return variable

    def _touches(self, cut: int) -> BoolColumn:
        graph = self._step.graph
        touched: BoolColumn = graph.producer == cut
        touched[graph.consumer_tensors[graph.consumer_nodes == cut]] = True
        return touched

    def _add_stage(self, index: int) -> None:
        """Add rows (1), (2) and (3) of the stage behind a cut."""
        step, graph = self._step, self._step.graph
        cut = self.cuts[index]
        is_last = index + 1 == len(self.cuts)
        end = graph.node_count if is_last else self.cuts[index + 1] + 1
        held, again, fetched = self._held[index], self._again[index], self._fetched[index]
        makers = step.unit_of_tensor
        inside = (graph.consumer_nodes > cut) & (graph.consumer_nodes < end)
        read = np.unique(graph.consumer_tensors[inside])
        # What the cut itself makes is there.
        read = read[self._producer[read] < cut]
        self._rows.add(
            -np.ones(len(read)),
            (held[read], -1.0), (again[makers[read]], -1.0), (fetched[read], -1.0),
        )  # fmt: skip
        unit, tensor = self._inputs.T
        needs = (again[unit] >= 0) & (self._producer[tensor] < cut)
        unit, tensor = unit[needs], tensor[needs]
        self._rows.add(
            np.zeros(len(unit)),
            (again[unit], 1.0), (held[tensor], -1.0), (again[makers[tensor]], -1.0),
            (fetched[tensor], -1.0),
        )  # fmt: skip
        if is_last:
            return
        next_held = self._held[index + 1]
        kept = np.flatnonzero((next_held >= 0) & (self._producer < cut))
        self._rows.add(
            np.zeros(len(kept)),
            (next_held[kept], 1.0), (held[kept], -1.0), (again[makers[kept]], -1.0),
            (fetched[kept], -1.0),
        )  # fmt: skip

    def _add_cut(self, index: int) -> None:
        """Add row (4), and a row for each tensor that the node of the cut uses."""
        size, held = self._step.problem.size, self._held[index]
        touched = self._touches(self.cuts[index])
        used = np.flatnonzero(touched & (held >= 0))
        self._rows.add(-np.ones(len(used)), (held[used], -1.0))
        made = int(size[touched & (held < 0)].sum()) / self._scale
        there = np.flatnonzero(held >= 0)
        variables, values = held[there], size[there] / self._scale
        if self._is_limit:
            variables, values = np.append(variables, self._last), np.append(values, -1.0)
        self._rows.add_sum((0.0 if self._is_limit else 1.0) - made, variables, values)

    def _add_copies(self, index: int) -> None:
        """Add row (5) of a cut; a tensor that is fetched behind the cut is not held there."""
        step, held, fetched = self._step, self._held[index], self._fetched[index]
        there = np.flatnonzero(fetched >= 0)
        self._rows.add(np.ones(len(there)), (held[there], 1.0), (fetched[there], 1.0))
        if self._is_limit or not len(there):
            return
        most, cut = self._most_seconds, self.cuts[index]
        # Fetches behind the cut: those of this stage and of all later ones.
        later = [(column[column >= 0], np.flatnonzero(column >= 0))
                 for column in self._fetched[index:]]  # fmt: skip
        seconds = step.problem.size * (step.copy_seconds / most)
        self._rows.add_sum(
            float(step.node_seconds[cut:].sum()) / most,
            np.concatenate([*(variable for variable, _ in later), [self._last]]),
            np.concatenate([*(seconds[tensors] for _, tensors in later), [-1.0]]),
        )
        first = int(self._producer[there].min())
        self._rows.add_sum(
            float(step.node_seconds[first:cut].sum()) / most,
            np.append(fetched[there], self._last),
            np.append(seconds[there], -1.0),
        )

    def _add_seconds(self) -> None:
        """Add row (6)."""
        if self._is_limit:
            return
        parts = self._step.unit_seconds / self._most_seconds
        self._rows.add_sum(
            0.0,
            np.concatenate([*(again[again >= 0] for again in self._again), [self._last]]),
            np.concatenate([*(parts[again >= 0] for again in self._again), [-1.0]]),
        )
