"""The CP-SAT model of offset assignment, and the orders of its branching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from planners.exact.branch_and_bound.branch_and_bound import ORDERS
from planners.exact.cliques import (
    clique_cover,
    list_unsafe_pairs,
    neighbourhoods,
    require_unsafe_pairs,
)
from planners.exact.common_unit import ScaledBlocks
from planners.exact.model_limits import require_room, require_time
from planners.exact.sections import Sections, sections_of
from planners.exact.symmetry import Symmetry, symmetry_of
from planners.model.blocks import NOT_PINNED
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.problem import Problem, Safety

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

TieOrder = tuple[str, ...]

# CP-SAT gets an order before it places any tensor. Then the unplaced bytes of a section ("left")
# equal all of its bytes ("total").
TIE_ORDERS: tuple[TieOrder, ...] = tuple(
    dict.fromkeys(tuple(key.replace("left", "total") for key in order) for order in ORDERS)
)


def blocks_in_order(
    problem: Problem, scaled: ScaledBlocks, cliques: Sequence[IntColumn], order: TieOrder
) -> IntColumn:
    """Return all blocks sorted by the keys of an order, over sections or other cliques."""
    tensors = problem.tensor_count
    total, count = np.zeros(tensors, dtype=np.int64), np.zeros(tensors, dtype=np.int64)
    first, last = np.full(tensors, len(cliques)), np.zeros(tensors, dtype=np.int64)
    for index, clique in enumerate(cliques):
        total[clique] = np.maximum(total[clique], scaled.tensor_size[clique].sum())
        count[clique] += 1
        first[clique] = np.minimum(first[clique], index)
        last[clique] = index
    # As floats: the difference of two steps may exceed an int64.
    lifetime = problem.end.astype(np.float64) - problem.start
    if problem.safety is Safety.PAIRS:
        lifetime = count.astype(np.float64)
    keys = {
        "total": -_of_blocks(np.maximum, problem, total),
        "sections": -_of_blocks(np.add, problem, count),
        "lifetime": -_of_blocks(np.add, problem, lifetime),
        "area": -_of_blocks(np.add, problem, lifetime * scaled.tensor_size),
        "size": -scaled.size,
        "early start": _of_blocks(np.minimum, problem, first),
        "late start": -_of_blocks(np.minimum, problem, first),
        "early end": _of_blocks(np.maximum, problem, last),
        "late end": -_of_blocks(np.maximum, problem, last),
    }
    return np.lexsort([keys[name] for name in reversed(order)])


def _of_blocks(reduce: np.ufunc, problem: Problem, column: np.ndarray) -> np.ndarray:
    """Reduce a column with one entry for each tensor to one entry for each block."""
    blocks = problem.blocks
    if not blocks.count:
        return column
    return reduce.reduceat(column[blocks.members], blocks.indptr[:-1])


# Limits of the model. At these sizes it takes about a gigabyte once CP-SAT has presolved it.
MOST_RECTANGLES = 50_000
MOST_PAIRS = 4_000_000
MOST_CLIQUE_MEMBERS = 1_000_000

# Limits the live tensors, summed over all sections, up to which each section becomes a
# one-dimensional no-overlap. These constraints follow from the rectangles; they help CP-SAT prune.
# A guess.
MOST_SECTION_MEMBERS = 60_000

# CP-SAT requires every linear row to stay within int64, and a row adds a few such numbers.
MOST_UNITS = 1 << 58
# CP-SAT also requires the sum of the largest values of all variables to stay within int64.
MOST_UNITS_OF_ALL = 1 << 62


@dataclass(frozen=True)
class OffsetModel:
    """A CP-SAT model and its offset variables."""

    model: cp_model.CpModel
    # Offset of every block in units: an int, or an expression of CP-SAT.
    head: list[Any]


def build_model(
    model: cp_model.CpModel,
    problem: Problem,
    scaled: ScaledBlocks,
    hint: IntColumn,
    peaks: tuple[int, int],
    budget: Budget,
    *,
    decide: bool,
    tie_order: TieOrder | None = None,
) -> OffsetModel:
    """Fill an empty model.

    If lifetimes decide safety, each segment of a tensor is a rectangle, sections by bytes. One
    ``NoOverlap2D`` holds all rectangles, and every section is a one-dimensional ``NoOverlap``
    besides. Otherwise each clique of a cover of the unsafe pairs is one ``NoOverlap``, which CP-SAT
    orders by precedence Booleans of its own if it has to branch.

    With a tie order the model asks for any plan and fixes the branching: among the unplaced blocks,
    the one that can lie lowest comes next, and among several the first of the order. There is no
    hint, since a hint would take precedence. The sections' rows are left out: beside them, if the
    capacity leaves room, CP-SAT's bounds creep up unit by unit for seconds between two branches.
    """
    incumbent = int((hint + scaled.size).max(initial=0))
    require_room("units of bytes", incumbent, MOST_UNITS)
    # One variable for each block, and the peak.
    variables = 1 + scaled.count
    require_room("units of bytes in all variables", incumbent * variables, MOST_UNITS_OF_ALL)
    require_room_for_pairs(problem)
    peak = model.new_int_var(*peaks, "peak")
    head, steps = _head_variables(model, scaled, peaks[1], budget)
    for offset, size in zip(head, scaled.size.tolist(), strict=True):
        model.add(offset + size <= peak)
    rows = tie_order is None
    symmetry, live = add_no_overlaps(model, problem, scaled, head, budget, rows=rows)
    if tie_order is not None:
        # The order already decides which block lies at the bottom.
        symmetry = replace(symmetry, anchor=None)
    _break_symmetry(model, scaled, symmetry, head, peak)
    if tie_order is not None:
        order = blocks_in_order(problem, scaled, live, tie_order).tolist()
        _place_lowest_first(model, [steps[block] for block in order if block in steps])
        return OffsetModel(model, head)
    if not decide:
        model.minimize(peak)
    heads = symmetry.representative(scaled, hint, incumbent)
    hinted = ((heads - scaled.residue) // scaled.modulus).tolist()
    for block, step in steps.items():
        model.add_hint(step, hinted[block])
    model.add_hint(peak, min(incumbent, peaks[1]))
    return OffsetModel(model, head)


def require_room_for_pairs(problem: Problem) -> None:
    """Raise ``ModelTooLargeError`` if creating the variables alone would take seconds."""
    if problem.lifetimes_decide:
        rectangles = np.count_nonzero(problem.size[problem.segments()[:, 0]])
        require_room("rectangles", int(rectangles), MOST_RECTANGLES)
    else:
        require_unsafe_pairs(problem, MOST_PAIRS)


def _head_variables(
    model: cp_model.CpModel, scaled: ScaledBlocks, most: int, budget: Budget
) -> tuple[list[Any], dict[int, Any]]:
    """Return each block's offset, an int or ``modulus * step + residue``; and the steps."""
    last = (scaled.highest(most) - scaled.lowest) // scaled.modulus
    # A block that does not fit even alone has no step either; the row below the peak refutes it.
    moves = (scaled.pinned == NOT_PINNED) & (scaled.size > 0) & (last >= 0)
    modulus, limit = scaled.modulus.tolist(), last.tolist()
    head: list[Any] = scaled.lowest.tolist()
    steps: dict[int, Any] = {}
    for count, block in enumerate(np.flatnonzero(moves).tolist()):
        if count % 1024 == 0:
            require_time(budget)
        steps[block] = model.new_int_var(0, limit[block], f"step{block}")
        head[block] = modulus[block] * steps[block] + head[block]
    return head, steps


def add_no_overlaps(
    model: cp_model.CpModel,
    problem: Problem,
    scaled: ScaledBlocks,
    head: list[Any],
    budget: Budget,
    *,
    rows: bool = True,
) -> tuple[Symmetry, list[IntColumn]]:
    """Keep unsafe pairs apart; return the symmetry of a peak, and sections or cliques."""
    if problem.lifetimes_decide:
        return _add_rectangles(model, problem, scaled, head, budget, rows=rows)
    return _add_cliques(model, problem, scaled, head, budget)


def _add_rectangles(
    model: cp_model.CpModel,
    problem: Problem,
    scaled: ScaledBlocks,
    head: list[Any],
    budget: Budget,
    *,
    rows: bool,
) -> tuple[Symmetry, list[IntColumn]]:
    """Add rectangles, and sections as rows besides; return the symmetry and the sections."""
    sections = sections_of(problem)
    segments = sections.segments.tolist()
    addresses = _address_intervals(
        model, scaled, head, {tensor for tensor, _, _ in segments}, budget
    )
    times = [
        model.new_fixed_size_interval_var(first, last - first, "") for _, first, last in segments
    ]
    model.add_no_overlap_2d(times, [addresses[tensor] for tensor, _, _ in segments])
    live_sets = sections.live_sets()
    if rows and sections.member_count <= MOST_SECTION_MEMBERS:
        for live in live_sets:
            require_time(budget)
            model.add_no_overlap([addresses[tensor] for tensor in live.tolist()])
    return symmetry_of(problem, scaled, _segments_of_tensors(problem, sections)), live_sets


def _add_cliques(
    model: cp_model.CpModel,
    problem: Problem,
    scaled: ScaledBlocks,
    head: list[Any],
    budget: Budget,
) -> tuple[Symmetry, list[IntColumn]]:
    """Add a cover by cliques; return the symmetry and the cliques."""
    pairs = list_unsafe_pairs(problem, MOST_PAIRS)
    known = sections_of(problem).live_sets() if problem.safety is Safety.GRAPH else []
    cliques = clique_cover(problem.tensor_count, pairs, known, budget, MOST_CLIQUE_MEMBERS)
    addresses = _address_intervals(
        model, scaled, head, {tensor for clique in cliques for tensor in clique}, budget
    )
    for clique in cliques:
        require_time(budget)
        model.add_no_overlap([addresses[tensor] for tensor in clique])
    symmetry = symmetry_of(problem, scaled, neighbourhoods(problem.tensor_count, pairs))
    return symmetry, [np.array(clique) for clique in cliques]


def _place_lowest_first(model: cp_model.CpModel, steps: list[Any]) -> None:
    # OR-Tools is imported already, since the model exists.
    from ortools.sat.python import cp_model

    model.add_decision_strategy(steps, cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE)


def _address_intervals(
    model: cp_model.CpModel,
    scaled: ScaledBlocks,
    head: list[Any],
    tensors: set[int],
    budget: Budget,
) -> dict[int, Any]:
    addresses = {}
    columns = (scaled.block_of, scaled.before, scaled.tensor_size)
    block_of, before, size = (column.tolist() for column in columns)
    for tensor in sorted(tensors):
        if tensor % 1024 == 0:
            require_time(budget)
        addresses[tensor] = model.new_fixed_size_interval_var(
            head[block_of[tensor]] + before[tensor], size[tensor], f"tensor{tensor}"
        )
    return addresses


def _segments_of_tensors(problem: Problem, sections: Sections) -> list[bytes]:
    """Return, for each tensor, one key for all of its sections."""
    borders = np.searchsorted(sections.segments[:, 0], np.arange(1, problem.tensor_count))
    return [rows.tobytes() for rows in np.split(sections.segments[:, 1:], borders)]


def _break_symmetry(
    model: cp_model.CpModel, scaled: ScaledBlocks, symmetry: Symmetry, head: list[Any], peak: Any
) -> None:
    size = scaled.size.tolist()
    for group in symmetry.groups:
        for lower, upper in pairwise(group):
            model.add(head[lower] + size[lower] <= head[upper])
    if symmetry.anchor is not None:
        model.add(2 * head[symmetry.anchor] + size[symmetry.anchor] <= peak)
