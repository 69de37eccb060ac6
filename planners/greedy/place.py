"""Places tensors in an order: the one entry to the engine for greedy planners and heuristics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from planners import _core
from planners.errors import GaplessError, near_names
from planners.greedy.sort_keys import ORDERS, SortKey, block_order
from planners.model.blocks import NOT_PINNED
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.incumbent import Incumbent
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.registry import UnsupportedProblemError

Fit = Literal["first", "best"]
ChainRule = Literal["exact", "paper"]

FITS: dict[str, _core.Fit] = {"first": _core.Fit.FIRST, "best": _core.Fit.BEST}
CHAIN_RULES: dict[str, _core.ChainRule] = {
    "exact": _core.ChainRule.EXACT,
    "paper": _core.ChainRule.PAPER,
}

Order = str | SortKey | Sequence[float] | NDArray[Any]


def place(
    problem: Problem,
    order: Order = "size",
    fit: str = "first",
    *,
    chain_rule: str = "exact",
    budget: Budget | None = None,
) -> Plan:
    """Place the tensors one after the other into a single buffer.

    Parameters
    ----------
    problem
        What to plan. Lifetimes with gaps, graphs, pairs, alignment, pins and chains are handled.
    order
        The name of an order, a function from the problem to sort keys, or the keys themselves: one
        number a tensor, the smallest first. A chain is placed with its most urgent tensor; ties go
        to the lower index.
    fit
        ``first``: the lowest free offset. ``best``: the smallest free gap.
    chain_rule
        Which offsets a chain may take: ``exact`` allows all safe ones; ``paper`` skips those that
        the published Fit skips.
    budget
        Limits; none by default.

    Raises
    ------
    GaplessError
        The order, the fit or the chain rule is unknown, or there are not as many keys as tensors.
    TimeoutError
        The time limit passed before every tensor was placed.

    References
    ----------
    Lamprou et al. 2023, algorithm 6 with 8 to 13.
    """
    return _place(problem, order, fit, chain_rule, budget, objects=False)


def place_in_objects(
    problem: Problem,
    order: Order = "size",
    fit: str = "first",
    *,
    chain_rule: str = "exact",
    budget: Budget | None = None,
) -> Plan:
    """Place the tensors one after the other into objects that partition the buffer.

    Parameters
    ----------
    problem, order, fit, chain_rule, budget
        As for :func:`place`.

    Raises
    ------
    UnsupportedProblemError
        A tensor is pinned.
    GaplessError, TimeoutError
        As for :func:`place`.

    References
    ----------
    Lamprou et al. 2023, algorithm 7 with 8 to 13.
    """
    if (problem.pinned != NOT_PINNED).any():
        raise UnsupportedProblemError(
            "pinned tensors: objects partition the buffer in the order they open, and a pin may "
            "lie across two of them; use a greedy planner"
        )
    return _place(problem, order, fit, chain_rule, budget, objects=True)


@dataclass(frozen=True)
class Attempt:
    """The outcome of placing blocks below a limit."""

    # None if a block would have ended at or above the limit.
    plan: Plan | None
    # Number of placed blocks of the order; the next block is the one that did not fit.
    placed: int
    # True if the time limit passed; then the plan, if any, has the remaining blocks stacked on top.
    out_of_time: bool = False


def place_blocks(
    problem: Problem,
    blocks: NDArray[np.integer],
    fit: str = "first",
    budget: Budget | None = None,
    *,
    chain_rule: str = "exact",
    objects: bool = False,
    below: int | None = None,
    complete: bool = False,
) -> Attempt:
    """Place blocks one after the other, and give up when one ends at or above ``below``.

    If the time limit passes and ``complete`` is set, the remaining blocks are stacked on top,
    whatever ``below`` is.
    """
    algorithm = _core.place_many_objects if objects else _core.place_single_object
    offsets, placed, out_of_time = algorithm(
        problem.core,
        blocks.astype(np.int32, copy=False),
        _known("fit", fit, FITS),
        _known("chain rule", chain_rule, CHAIN_RULES),
        _core.NO_LIMIT if below is None else below,
        (budget or Budget()).remaining_seconds(),
    )
    if not out_of_time:
        return Attempt(Plan.of(problem, offsets) if placed == len(blocks) else None, placed)
    if not complete:
        raise TimeoutError("the time limit passed before a plan was complete")
    return Attempt(stack_rest(problem, offsets, blocks[placed:]), placed, out_of_time=True)


def sort_keys(problem: Problem, order: Order) -> NDArray[Any]:
    """Return the sort keys of an order, one number a tensor."""
    if isinstance(order, str):
        order = _known("order", order, ORDERS)
    keys = np.asarray(order(problem) if callable(order) else order)
    if keys.shape != (problem.tensor_count,) or keys.dtype.kind not in "iufb":
        raise GaplessError(
            f"order: one number a tensor is needed, found {keys.dtype} of shape {keys.shape} for "
            f"{problem.tensor_count} tensors"
        )
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        raise GaplessError(f"order: key {int(np.flatnonzero(np.isnan(keys))[0])} is not a number")
    return keys


def _place(
    problem: Problem,
    order: Order,
    fit: str,
    chain_rule: str,
    budget: Budget | None,
    *,
    objects: bool,
) -> Plan:
    blocks = block_order(problem.blocks, sort_keys(problem, order))
    attempt = place_blocks(problem, blocks, fit, budget, chain_rule=chain_rule, objects=objects)
    assert attempt.plan is not None
    return attempt.plan


def _known(what: str, name: str, table: dict[str, Any]) -> Any:
    if name not in table:
        raise GaplessError(f"no {what} is called {name!r}; {near_names(name, table)}")
    return table[name]


# Limits the peak of a stacked plan, in bytes, so that offsets do not overflow.
MOST_BYTES = 1 << 62


def stack_rest(problem: Problem, offsets: IntColumn, rest: NDArray[np.integer]) -> Plan | None:
    """Complete a plan: blocks that are not placed yet are stacked above the placed ones.

    This takes milliseconds for a million tensors: every block is padded to the strictest alignment
    of all, so no loop over blocks is needed.
    """
    blocks = problem.blocks
    heads = offsets[blocks.members[blocks.indptr[:-1]]]
    pinned = rest[blocks.pinned[rest] != NOT_PINNED]
    heads[pinned] = blocks.pinned[pinned]
    free = rest[blocks.pinned[rest] == NOT_PINNED]
    placed = np.ones(blocks.count, dtype=np.bool_)
    placed[free] = False
    top = int((heads + blocks.size)[placed].max(initial=0))
    strictest = int(blocks.modulus[free].max(initial=1))
    if top + int(blocks.size[free].sum()) + 2 * strictest * (len(free) + 1) > MOST_BYTES:
        return None
    padded = -(-(blocks.residue[free] + blocks.size[free]) // strictest) * strictest
    floor = -(-top // strictest) * strictest
    heads[free] = floor + np.cumsum(padded) - padded + blocks.residue[free]
    return Plan.of_blocks(problem, heads)


def place_better(
    incumbent: Incumbent,
    blocks: NDArray[np.integer],
    name: str,
    fit: str = "first",
    *,
    objects: bool = False,
    only_goal: bool = False,
) -> int:
    """Place blocks in an order while the plan can still become the incumbent's best.

    If the time ends first, the remaining blocks are stacked on top: the plan may still be the best.
    """
    limits = [incumbent.goal + 1] if only_goal else []
    if incumbent.best is not None:
        limits.append(incumbent.best.peak)
    attempt = place_blocks(
        incumbent.problem,
        blocks,
        fit,
        incumbent.attempt_budget,
        objects=objects,
        below=min(limits, default=None),
        complete=True,
    )
    incumbent.count += 1
    if attempt.plan is not None:
        incumbent.offer(attempt.plan, f"{name}, cut short" if attempt.out_of_time else name)
    if attempt.out_of_time:
        raise TimeoutError("the time limit passed before the plan was complete")
    return attempt.placed
