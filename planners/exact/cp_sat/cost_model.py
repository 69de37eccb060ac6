"""The CP-SAT model of least cost: blocks in ranges of heads, and pairs that pay if they share."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from planners.exact.common_unit import ScaledBlocks, scale_blocks
from planners.exact.cp_sat.offset_model import (
    MOST_UNITS,
    MOST_UNITS_OF_ALL,
    OffsetModel,
    add_no_overlaps,
    require_room_for_pairs,
)
from planners.exact.model_limits import require_room, require_time
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.problem import Problem

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


def build_cost_model(
    cp: Any,
    problem: Problem,
    ranges: IntColumn,
    hint: IntColumn | None,
    budget: Budget,
) -> tuple[OffsetModel, ScaledBlocks]:
    """Return the model, and the blocks in its unit; ``hint`` are heads of a plan in bytes.

    A block's head has the union of its ranges as its domain. A literal for each range says that
    the head is in it, if ranges of the block differ in cost or alignment.
    """
    scaled = scale_blocks(problem, ranges)
    top = int(ranges[:, 2].max(initial=0) // scaled.unit + scaled.size.max(initial=0))
    require_room("units of bytes", top, MOST_UNITS)
    variables = 1 + 3 * len(ranges)
    require_room("units of bytes in all variables", top * variables, MOST_UNITS_OF_ALL)
    require_room_for_pairs(problem)
    model: cp_model.CpModel = cp.CpModel()
    head: list[Any] = scaled.lowest.tolist()
    hinted = None if hint is None else (hint // scaled.unit).tolist()
    terms: list[Any] = []
    rows_of = defaultdict(list)
    for block, *row in (ranges // (1, *[scaled.unit] * 2, 1, 1, 1)).tolist():
        rows_of[block].append(row)
    for block, rows in rows_of.items():
        require_time(budget)
        head[block] = _add_head(cp, model, scaled.unit, rows, terms)
        if hinted is not None:
            model.add_hint(head[block], hinted[block])
    add_no_overlaps(model, problem, scaled, head, budget)
    _add_prices(model, problem, scaled, head, terms, budget)
    model.minimize(sum(terms))
    return OffsetModel(model, head), scaled


def _add_head(
    cp: Any, model: cp_model.CpModel, unit: int, rows: list[list[int]], terms: list[Any]
) -> Any:
    """Return the variable of a head with these ranges, in units, and add its costs to the terms."""
    head = model.new_int_var_from_domain(cp.Domain.from_intervals([row[:2] for row in rows]), "")
    literals: list[Any] = [True]
    if len({tuple(row[2:]) for row in rows}) > 1:
        literals = [model.new_bool_var("") for _ in rows]
        model.add_exactly_one(literals)
    else:
        rows = [[rows[0][0], rows[-1][1], *rows[0][2:]]]
    for literal, (first, last, modulus, _, cost) in zip(literals, rows, strict=True):
        model.add_linear_constraint(head, first, last).only_enforce_if(literal)
        if unit % modulus:
            step = model.new_int_var(0, (last - first) * unit // modulus, "")
            model.add(head == modulus // unit * step + first).only_enforce_if(literal)
        terms.append(cost * literal)
    return head


def _add_prices(
    model: cp_model.CpModel,
    problem: Problem,
    scaled: ScaledBlocks,
    head: list[Any],
    terms: list[Any],
    budget: Budget,
) -> None:
    """Add for each price that its tensors share a byte, or one lies below the other."""
    block_of, before, size = (
        column.tolist() for column in (scaled.block_of, scaled.before, scaled.tensor_size)
    )
    for first, second, price in problem.reuse_prices.tolist():
        require_time(budget)
        if not (size[first] and size[second]) or block_of[first] == block_of[second]:
            continue
        begin, other = (head[block_of[t]] + before[t] for t in (first, second))
        below, above, shared = (model.new_bool_var("") for _ in range(3))
        model.add(begin + size[first] <= other).only_enforce_if(below)
        model.add(other + size[second] <= begin).only_enforce_if(above)
        model.add_exactly_one(below, above, shared)
        terms.append(price * shared)
