"""The independent parts of a problem, each in the form that the core searches."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from planners import _core
from planners.exact.cliques import clique_cover, list_unsafe_pairs, require_unsafe_pairs
from planners.exact.common_unit import ScaledBlocks
from planners.exact.model_limits import require_room, require_time
from planners.exact.sections import Sections, sections_of
from planners.model.bounds import SHARE_FOR_BOUNDS, BoundTooLargeError, antichain_bound
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.problem import Problem, Safety

# Limits of the model. Beyond them a node takes too long for the search to be useful. All but
# MOST_TENSORS, which is the core's, are guesses.
MOST_TENSORS = _core.MOST_MEMBERS
MOST_PAIRS = 8_000_000
MOST_PAIRS_TO_COVER = 1_000_000
MOST_CLIQUE_MEMBERS = 4_000_000


@dataclass(frozen=True, eq=False)
class Component:
    """Blocks without an unsafe pair to any other block."""

    # int64 indices of the problem's blocks in this part.
    blocks: IntColumn
    # A lower bound on the peak of this part: the most units in one section.
    least: int
    # Canonical if every block is one tensor, otherwise disjunctive.
    search: _core.CanonicalSearch | _core.DisjunctiveSearch
    # The core's form of the part: its members, and rows ``(member, first, last)`` of sections.
    core: _core.SearchProblem
    sections: Sections
    # int64 tensor of each member.
    tensors: IntColumn


def components_of(problem: Problem, scaled: ScaledBlocks, budget: Budget) -> list[Component]:
    """Return the parts of a problem; blocks of size 0 are in none."""
    sized = np.flatnonzero(problem.size > 0)
    require_room("tensors", len(sized), MOST_TENSORS)
    rows = _rows(problem, budget)
    if not len(rows):
        return []
    hulls = _block_hulls(problem, rows)
    return [_part(problem, scaled, rows, blocks, budget) for blocks in _apart(hulls)]


def _rows(problem: Problem, budget: Budget) -> IntColumn:
    """Return rows ``(tensor, first, last)`` of sections, sorted by tensor, of tensors with bytes.

    If lifetimes do not decide safety, a section is a clique of unsafe tensors.
    """
    if problem.lifetimes_decide:
        require_unsafe_pairs(problem, MOST_PAIRS)
        return sections_of(problem).segments
    pairs = list_unsafe_pairs(problem, MOST_PAIRS_TO_COVER)
    known: list[IntColumn] = []
    if problem.safety is Safety.GRAPH:
        # The heaviest antichain first: its total is the best bound that a section can give.
        with suppress(TimeoutError, BoundTooLargeError):
            seconds = SHARE_FOR_BOUNDS * budget.remaining_seconds()
            heaviest = antichain_bound(problem, seconds).witness
            known.append(heaviest[problem.size[heaviest] > 0])
        known += sections_of(problem).live_sets()
    cliques = clique_cover(problem.tensor_count, pairs, known, budget, MOST_CLIQUE_MEMBERS)
    # A tensor that is safe with all others has a section of its own.
    alone = problem.size > 0
    alone[list(chain.from_iterable(cliques))] = False
    cliques += [[tensor] for tensor in np.flatnonzero(alone).tolist()]
    return _runs(cliques)


def _runs(cliques: list[list[int]]) -> IntColumn:
    """Return rows ``(tensor, first, last)`` of consecutive cliques, sorted by tensor."""
    tensor = np.fromiter(chain.from_iterable(cliques), dtype=np.int64)
    clique = np.repeat(np.arange(len(cliques)), [len(members) for members in cliques])
    order = np.argsort(tensor, kind="stable")
    tensor, clique = tensor[order], clique[order]
    goes_on = (np.diff(tensor) == 0) & (np.diff(clique) == 1)
    first = np.flatnonzero(np.append(True, ~goes_on)[: len(tensor)])
    last = np.append(first[1:] - 1, len(tensor) - 1)[: len(first)]
    return np.column_stack((tensor[first], clique[first], clique[last] + 1))


def _block_hulls(problem: Problem, rows: IntColumn) -> IntColumn:
    """Return rows ``(block, first, last)``, sorted by ``first``."""
    tensor, first, last = rows.T
    block = problem.blocks.block_of[tensor]
    order = np.argsort(block, kind="stable")
    heads = np.flatnonzero(np.diff(block[order], prepend=-1))
    hulls = np.column_stack(
        (
            block[order][heads],
            np.minimum.reduceat(first[order], heads),
            np.maximum.reduceat(last[order], heads),
        )
    )
    return hulls[np.argsort(hulls[:, 1], kind="stable")]


def _apart(hulls: IntColumn) -> list[IntColumn]:
    """Return groups of blocks whose hulls do not overlap."""
    reach = np.maximum.accumulate(hulls[:, 2])
    starts = np.flatnonzero(hulls[1:, 1] >= reach[:-1]) + 1
    return [np.sort(group[:, 0]) for group in np.split(hulls, starts)]


def _part(
    problem: Problem,
    scaled: ScaledBlocks,
    rows: IntColumn,
    blocks: IntColumn,
    budget: Budget,
) -> Component:
    require_time(budget)
    number = np.full(problem.blocks.count, -1)
    number[blocks] = np.arange(len(blocks))
    # Members are the tensors of nonzero size, sorted by block.
    block_of = number[problem.blocks.block_of]
    tensors = np.flatnonzero((block_of >= 0) & (problem.size > 0))
    tensors = tensors[np.argsort(block_of[tensors], kind="stable")]
    member = np.full(problem.tensor_count, -1)
    member[tensors] = np.arange(len(tensors))
    own = rows[member[rows[:, 0]] >= 0]
    own = np.column_stack((member[own[:, 0]], own[:, 1:]))
    own = own[np.argsort(own[:, 0], kind="stable")]
    own[:, 1:] -= own[:, 1].min()
    sections = int(own[:, 2].max())
    size = scaled.tensor_size[tensors]
    core = _core.SearchProblem(
        scaled.modulus[blocks],
        scaled.residue[blocks],
        scaled.pinned[blocks],
        block_of[tensors].astype(np.int32),
        scaled.before[tensors],
        size,
        _lifetimes(problem, rows)[tensors],
        np.ascontiguousarray(own),
        sections,
    )
    totals = np.zeros(sections + 1, dtype=np.int64)
    np.add.at(totals, own[:, 1], size[own[:, 0]])
    np.subtract.at(totals, own[:, 2], size[own[:, 0]])
    alone = int((scaled.lowest + scaled.size)[blocks].max())
    single = len(tensors) == len(blocks)
    engine = _core.CanonicalSearch if single else _core.DisjunctiveSearch
    return Component(
        blocks,
        max(int(np.cumsum(totals).max()), alone),
        engine(core, budget.remaining_seconds()),
        core,
        Sections(own, sections),
        tensors,
    )


def _lifetimes(problem: Problem, rows: IntColumn) -> NDArray[np.float64]:
    """Return each tensor's lifetime in steps, or in sections if steps are not known."""
    lives = rows if problem.safety is Safety.PAIRS else problem.segments()
    tensor, first, last = lives.T
    lifetimes = np.zeros(problem.tensor_count)
    # The difference of two steps may exceed an int64.
    np.add.at(lifetimes, tensor, last.astype(np.float64) - first)
    return lifetimes
