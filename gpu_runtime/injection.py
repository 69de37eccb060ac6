"""Injection: wrong plans made on purpose, to see that the verification fails on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpu_runtime.pattern import WORD_BYTES
from planners.columns import IntColumn
from planners.errors import GaplessError
from planners.plan import Plan
from planners.problem import Problem


@dataclass(frozen=True)
class Injection:
    """One tensor moved onto a partner that it may not share bytes with.

    Parameters
    ----------
    tensor
        What was moved.
    partner
        Where it lies now, at least in part.
    offset
        Its new offset, bytes.
    """

    tensor: int
    partner: int
    offset: int


def inject(problem: Problem, plan: Plan, count: int, seed: int) -> list[Injection]:
    """Choose tensors to be moved onto unsafe partners.

    Parameters
    ----------
    problem
        What was planned.
    plan
        A right plan.
    count
        Tensors to be moved.
    seed
        Of every choice.

    Returns
    -------
    list of Injection
        Of different tensors, none a partner of another. Half of them lie exactly on their
        partner, the others overlap it by a word or more, where both have that much. The arena
        does not grow; alignments and chains are not heeded.

    Raises
    ------
    GaplessError
        There are not so many pairs of unsafe tensors with bytes.
    """
    rng = np.random.default_rng(seed)
    busy: set[int] = set()
    injections: list[Injection] = []
    for tensor in rng.permutation(np.flatnonzero(problem.size)).tolist():
        if len(injections) == count:
            break
        unsafe = problem.core.unsafe_with(tensor)
        partners = set(unsafe[problem.size[unsafe] > 0].tolist()) - busy
        if tensor in busy or not partners:
            continue
        partner = int(rng.choice(sorted(partners)))
        busy |= {tensor, partner}
        injections.append(
            Injection(tensor, partner, _offset_onto(problem, plan, tensor, partner, rng))
        )
    if len(injections) < count:
        raise GaplessError(
            f"{problem.name}: {count} disjoint pairs of unsafe tensors with bytes are needed to "
            f"inject as many, found {len(injections)}"
        )
    return injections


def moved(plan: Plan, injections: list[Injection]) -> IntColumn:
    """Return the offsets of a plan after its injections.

    Parameters
    ----------
    plan
        A right plan.
    injections
        What is moved.

    Returns
    -------
    numpy.ndarray
        int64 bytes, one a tensor.
    """
    offsets = plan.offsets.copy()
    for injection in injections:
        offsets[injection.tensor] = injection.offset
    return offsets


def _offset_onto(
    problem: Problem, plan: Plan, tensor: int, partner: int, rng: np.random.Generator
) -> int:
    """Return an offset at which a tensor overlaps its partner within the peak."""
    size, other = int(problem.size[tensor]), int(problem.size[partner])
    at = int(plan.offsets[partner])
    offset = at
    if rng.random() < 0.5:
        shared = min(size, other, WORD_BYTES)
        offset = int(rng.integers(at - size + shared, at + other - shared, endpoint=True))
    # Drawn into the arena, it moves towards its partner, which lies there already.
    return min(max(offset, 0), plan.peak - size)
