"""Lower bounds on the peak of any plan, each with the name of its certificate and a witness."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from planners import _core
from planners.columns import IntColumn
from planners.core_instance import lifetimes_decide
from planners.live_bytes import live_profile
from planners.problem import Problem, Safety
from planners.safety import core_graph


@dataclass(frozen=True, eq=False)
class Bound:
    """A number of bytes that no plan stays below.

    Parameters
    ----------
    name
        Name of the certificate.
    bytes
        The bound.
    witness
        int64 tensors that prove it: pairwise unsafe, with this sum of sizes; or, for ``block``,
        the members of the one block.
    """

    name: str
    bytes: int
    witness: IntColumn


def lifetime_bound(problem: Problem) -> Bound:
    """Return the largest number of bytes that are alive at one step of the global order.

    Parameters
    ----------
    problem
        With lifetimes, given or from its graph.

    Returns
    -------
    Bound
        Certificate ``lifetime``.

    References
    ----------
    safe-optimized-static-memory-allocation, appendix F.
    """
    if not problem.tensor_count:
        return Bound("lifetime", 0, np.empty(0, dtype=np.int64))
    steps, live = live_profile(problem)
    peak_step = steps[np.argmax(live)]
    tensor, start, end = problem.segments().T
    alive = tensor[(start <= peak_step) & (peak_step < end)]
    return Bound("lifetime", int(live.max()), alive)


def antichain_bound(problem: Problem, seconds: float = math.inf) -> Bound:
    """Return the heaviest set of tensors of a graph that are pairwise unsafe.

    It is never below the lifetime bound, whose live tensors are one such set, and equal to it
    for one stream.

    Parameters
    ----------
    problem
        With a graph.
    seconds
        Time limit.

    Returns
    -------
    Bound
        Certificate ``antichain``; exact.

    Raises
    ------
    TimeoutError
        The time limit passed.
    """
    assert problem.graph is not None
    heaviest, tensors = _core.heaviest_antichain(core_graph(problem.graph), problem.size, seconds)
    return Bound("antichain", heaviest, tensors.astype(np.int64))


def clique_bound(problem: Problem) -> Bound:
    """Return the bytes of a set of pairwise unsafe tensors, found greedily among given pairs.

    Parameters
    ----------
    problem
        With explicit unsafe pairs: no order is known, and the heaviest clique is NP-hard.

    Returns
    -------
    Bound
        Certificate ``clique``.
    """
    assert problem.unsafe_pairs is not None
    neighbours: list[set[int]] = [set() for _ in range(problem.tensor_count)]
    for a, b in problem.unsafe_pairs.tolist():
        neighbours[a].add(b)
        neighbours[b].add(a)
    size = problem.size.tolist()
    by_size = sorted(range(problem.tensor_count), key=lambda t: (-size[t], t))
    best: list[int] = []
    # Every tensor starts one clique, which takes the largest that still fit.
    for first in by_size[:256]:
        clique, candidates = [first], neighbours[first]
        for tensor in sorted(candidates, key=lambda t: (-size[t], t)):
            if tensor in candidates:
                clique.append(tensor)
                candidates = candidates & neighbours[tensor]
        if sum(size[t] for t in clique) > sum(size[t] for t in best):
            best = clique
    return Bound("clique", sum(size[t] for t in best), np.array(sorted(best), dtype=np.int64))


def block_bound(problem: Problem) -> Bound:
    """Return the largest end that one block forces alone: its size, after its pin if it has one.

    Parameters
    ----------
    problem
        Any.

    Returns
    -------
    Bound
        Certificate ``block``.
    """
    blocks = problem.blocks
    if not blocks.count:
        return Bound("block", 0, np.empty(0, dtype=np.int64))
    # An unpinned block starts at its residue at the lowest.
    end = np.where(blocks.pinned >= 0, blocks.pinned, blocks.residue) + blocks.size
    largest = int(np.argmax(end))
    members = blocks.members[blocks.offsets[largest] : blocks.offsets[largest + 1]]
    return Bound("block", int(end[largest]), members)


def bounds_of(problem: Problem, seconds: float = math.inf) -> list[Bound]:
    """Return every bound that applies to a problem.

    Parameters
    ----------
    problem
        Any.
    seconds
        Time limit for each; a bound that does not finish is left out.

    Returns
    -------
    list of Bound
        In the order in which they are shown.
    """
    if problem.safety is Safety.PAIRS:
        bounds = [clique_bound(problem)]
    else:
        bounds = [lifetime_bound(problem)]
    if problem.safety is Safety.GRAPH and not lifetimes_decide(problem):
        with suppress(TimeoutError):
            bounds.append(antichain_bound(problem, seconds))
    bounds.append(block_bound(problem))
    return bounds
