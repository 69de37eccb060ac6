"""Lower bounds on the peak of any plan, each with the name of its certificate and a witness.

Note [Bounds belong to the problem]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A bound is a property of the problem, not of a planner. So it is stored with the problem and
computed once. The quick bounds take milliseconds for a million tensors. The others, the antichain
of a graph and the clique of explicit pairs, can take longer than a plan. Their searches are stored
as well: a caller that asks for more continues where the last search ran out of time. So a planner
places first, then asks for the bounds that a share of its time allows, and may ask again later. The
next planner continues where the last one stopped.

Note [Alignment adds to a clique]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Rationale. Four tensors of 1,028 bytes at multiples of 16 that are live together need 4,148 bytes:
all but the last take 1,040. Their sizes alone prove 4,112.

Approach. Let the tensors of a clique be pairwise unsafe, with sizes above 0 and alignments of at
least g. No two share a byte, so that they lie one above the other. Each begins at a multiple of g,
at or above the end of the one below it. So the distance between two neighbours is a multiple of g
and at least the size of the lower one: at least that size rounded up to g. The first begins at 0 or
above, and the last takes its own size alone. The peak is at least the sum of the rounded sizes,
less what rounding adds to the last tensor; that is at most what it adds to any one. This holds for
every power of two g and the tensors aligned to g, so that the largest of these sums is a bound.
Between two alignments that tensors have, the higher g rounds the same tensors further, so that only
alignments of tensors are tried. Pins, chains and gaps only forbid more plans.

Limits. A tensor of a weaker alignment may lie in the bytes that rounding adds, so it counts only
for g up to its own. The steps of the global order are all tried; of an antichain or a clique, the
one that is heaviest without rounding is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from planners import _core
from planners.errors import GaplessError, InstanceError
from planners.model.columns import IntColumn
from planners.model.graph import Graph
from planners.model.known_bounds import Bound as Bound
from planners.model.known_bounds import KnownBounds
from planners.model.problem import Problem, Safety
from planners.model.problem_fields import liveness
from planners.safety.algorithms import core_graph

# Limits the cliques: this many of the largest tensors start a clique each. A guess.
CLIQUE_STARTS = 256
# Cliques times tensors that are examined whatever the time limit is; they take milliseconds.
QUICK_CLIQUE_STEPS = 1 << 19
# The share of the time left that a planner spends on bounds that are not known yet. A guess.
SHARE_FOR_BOUNDS = 0.3


class BoundTooLargeError(GaplessError):
    """A bound would take more memory than the limit allows."""


def lifetime_bound(problem: Problem) -> Bound:
    """Return the largest number of bytes that are alive at one step of the global order.

    Source: Lamprou et al. 2023, appendix F.
    """
    if not problem.tensor_count:
        return Bound("lifetime", 0, np.empty(0, dtype=np.int64))
    steps, live = liveness(problem)
    peak_step = steps[np.argmax(live)]
    tensor, start, end = problem.segments().T
    alive = tensor[(start <= peak_step) & (peak_step < end)]
    return Bound("lifetime", int(live.max()), alive)


def aligned_bound(problem: Problem) -> Bound:
    """Return the largest sum of rounded sizes of tensors that are alive at one step.

    The sum is less what rounding adds to one of them; see Note [Alignment adds to a clique].
    """
    best = Bound("aligned", 0, np.empty(0, dtype=np.int64))
    tensor, start, end = problem.segments().T
    steps, position = np.unique(np.concatenate([start, end]), return_inverse=True)
    first, after = position[: len(tensor)], position[len(tensor) :]
    for least, rounded in _rounded_sizes(problem):
        counts = problem.alignment[tensor] >= least
        rows = tensor[counts]
        change = np.zeros(len(steps), dtype=np.int64)
        np.add.at(change, first[counts], rounded[rows])
        np.subtract.at(change, after[counts], rounded[rows])
        added = rounded[rows] - problem.size[rows]
        total = np.cumsum(change) - _largest_in(len(steps), first[counts], after[counts], added)
        step = int(np.argmax(total))
        if total[step] > best.bytes:
            best = _aligned(problem, tensor[(first <= step) & (step < after)])
    return best


def _rounded_sizes(problem: Problem) -> Iterator[tuple[int, IntColumn]]:
    """Yield each alignment that rounds up a size of its tensors, and all sizes rounded to it."""
    for least in np.unique(problem.alignment).tolist():
        if np.any(problem.size[problem.alignment >= least] % least):
            yield least, -(-problem.size // least) * least


def _largest_in(count: int, first: IntColumn, after: IntColumn, value: IntColumn) -> IntColumn:
    """Return the largest value, or 0, of the intervals [first, after) over each of some steps.

    An interval is covered by two of the largest power of two that it holds, and an interval of a
    power of two is halved until it is one step.
    """
    power = np.frexp(after - first)[1] - 1
    largest = np.zeros(count, dtype=np.int64)
    for level in range(int(power.max(initial=-1)), -1, -1):
        chosen, half = power == level, (1 << level) >> 1
        np.maximum.at(largest, first[chosen], value[chosen])
        np.maximum.at(largest, after[chosen] - (1 << level), value[chosen])
        if half:
            largest[half:] = np.maximum(largest[half:], largest[:-half].copy())
    return largest


def _aligned(problem: Problem, witness: IntColumn) -> Bound:
    """Return the bound of pairwise unsafe tensors with their sizes rounded."""
    best = Bound("aligned", 0, witness[:0])
    for least, rounded in _rounded_sizes(problem):
        among = witness[(problem.alignment[witness] >= least) & (problem.size[witness] > 0)]
        added = rounded[among] - problem.size[among]
        total = int(rounded[among].sum() - added.max(initial=0))
        if total > best.bytes:
            best = Bound("aligned", total, among)
    return best


def antichain_bound(problem: Problem, seconds: float = math.inf) -> Bound:
    """Return the heaviest set of tensors of a graph that are pairwise unsafe.

    The antichain bound is never below the lifetime bound, whose live tensors are such a set. For
    one stream the two are equal.
    """
    assert problem.graph is not None
    known = problem.known_bounds
    with known.lock:
        if known.antichain is None:
            known.antichain = _search_antichain(problem.graph, problem.size, known, seconds)
            known.antichain_search = None
        return known.antichain


def _search_antichain(graph: Graph, size: IntColumn, known: KnownBounds, seconds: float) -> Bound:
    if known.too_large:
        raise BoundTooLargeError(known.too_large)
    try:
        if known.antichain_search is None:
            known.antichain_search = _core.AntichainSearch(core_graph(graph), size)
        heaviest, tensors = known.antichain_search.run(seconds)
    except (InstanceError, ValueError) as error:
        # The core's message says how much memory the clocks or the network would take.
        known.too_large, known.antichain_search = str(error), None
        raise BoundTooLargeError(known.too_large) from None
    return Bound("antichain", heaviest, tensors.astype(np.int64))


def clique_bound(problem: Problem, seconds: float = math.inf) -> Bound:
    """Return the bytes of a set of pairwise unsafe tensors, found greedily among given pairs.

    Each of the largest tensors starts a clique, to which the largest fitting tensors are added.
    """
    deadline = time.monotonic() + seconds
    known = problem.known_bounds
    with known.lock:
        by_size = np.argsort(-problem.size, kind="stable")
        starts = by_size[:CLIQUE_STARTS]
        for first in starts[known.cliques_grown :].tolist():
            quick = (known.cliques_grown + 1) * problem.tensor_count <= QUICK_CLIQUE_STEPS
            if known.cliques_grown and not quick and time.monotonic() >= deadline:
                break
            clique = problem.core.grow_clique(first, by_size)
            total = int(problem.size[clique].sum())
            if total > known.clique.bytes:
                known.clique = Bound("clique", total, np.sort(clique))
            known.cliques_grown += 1
        return known.clique


def block_bound(problem: Problem) -> Bound:
    """Return the largest end that a single block forces: its size, plus its pin if it has one."""
    blocks = problem.blocks
    if not blocks.count:
        return Bound("block", 0, np.empty(0, dtype=np.int64))
    # The lowest offset of an unpinned block is its residue.
    end = np.where(blocks.pinned >= 0, blocks.pinned, blocks.residue) + blocks.size
    largest = int(np.argmax(end))
    members = blocks.members[blocks.indptr[largest] : blocks.indptr[largest + 1]]
    return Bound("block", int(end[largest]), members)


def bounds_so_far(problem: Problem) -> list[Bound]:
    """Return the bounds known so far; computes only those that a pass over the problem gives."""
    known = problem.known_bounds
    with known.lock:
        if not known.quick:
            if not problem.pairs_decide:
                known.quick.append(lifetime_bound(problem))
                known.aligned = aligned_bound(problem)
            known.quick.append(block_bound(problem))
        *first, block = known.quick
        if known.cliques_grown:
            first.append(known.clique)
        if known.antichain is not None and not problem.lifetimes_decide:
            first.append(known.antichain)
        rounded = [known.aligned, *(_aligned(problem, bound.witness) for bound in first)]
        aligned = max(rounded, key=lambda bound: bound.bytes)
        # The aligned bound is listed only if alignment adds bytes to all others.
        adds = all(aligned.bytes > bound.bytes for bound in first)
        return [*first, *([aligned] if adds else []), block]


def bounds_of(problem: Problem, seconds: float = math.inf) -> list[Bound]:
    """Return every bound that applies to a problem.

    Parameters
    ----------
    problem
        Any; it stores the bounds.
    seconds
        Time limit of this call. A bound that is not known by then is left out, and the next call
        continues its search.

    Returns
    -------
    list of Bound
        In the order in which they are shown.
    """
    if problem.pairs_decide:
        clique_bound(problem, seconds)
    elif problem.safety is Safety.GRAPH and not problem.lifetimes_decide:
        with suppress(TimeoutError, BoundTooLargeError):
            antichain_bound(problem, seconds)
    return bounds_so_far(problem)


def bounds_are_known(problem: Problem) -> bool:
    """Return True if every bound that applies to a problem and fits memory has been computed."""
    known = problem.known_bounds
    if problem.pairs_decide:
        return known.cliques_grown >= min(CLIQUE_STARTS, problem.tensor_count)
    return problem.lifetimes_decide or known.antichain is not None or bool(known.too_large)


def best_bound_of(problem: Problem, seconds: float = math.inf) -> Bound:
    """Return the largest bound known after so many seconds; ties go to the first."""
    return max(bounds_of(problem, seconds), key=lambda bound: bound.bytes)
