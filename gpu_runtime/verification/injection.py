"""Wrong plans made on purpose, to see that the verification fails on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpu_runtime.verification.trials.stamp_pattern import WORD_BYTES
from planners.errors import GaplessError
from planners.model.columns import IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem


@dataclass(frozen=True)
class Injection:
    """A tensor that was moved onto a partner with which it may not share bytes."""

    tensor: int
    # The tensor that it now overlaps, at least in part.
    partner: int
    # Offset in bytes after the move.
    offset: int


def inject(problem: Problem, plan: Plan, count: int, seed: int) -> list[Injection]:
    """Choose tensors that are moved onto unsafe partners.

    The tensors differ, and none is a partner of another. Half of them lie exactly on their partner;
    the others overlap it by a word or more, if both have that much. None touches the bytes over
    which another pair collides, because the last writer there hides the earlier ones. The arena
    does not grow. Alignments and chains are ignored.
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
        offset = _offset_onto(problem, plan, tensor, partner, rng)
        injection = Injection(tensor, partner, offset)
        if any(
            _masks(problem, plan, one, other)
            for earlier in injections
            for one, other in ((injection, earlier), (earlier, injection))
        ):
            continue
        busy |= {tensor, partner}
        injections.append(injection)
    if len(injections) < count:
        raise GaplessError(
            f"{problem.name}: {count} injections need as many pairs of unsafe tensors that collide "
            f"independently, found {len(injections)}"
        )
    return injections


def moved(offsets: IntColumn, injections: Iterable[Injection]) -> IntColumn:
    """Return the offsets of a plan after its injections."""
    offsets = offsets.copy()
    for injection in injections:
        offsets[injection.tensor] = injection.offset
    return offsets


def _masks(problem: Problem, plan: Plan, one: Injection, other: Injection) -> bool:
    """Return True if a moved tensor touches the bytes over which another injection collides."""
    size, at = problem.size, int(plan.offsets[other.partner])
    begin = max(other.offset, at)
    end = min(other.offset + int(size[other.tensor]), at + int(size[other.partner]))
    return one.offset < end and begin < one.offset + int(size[one.tensor])


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
    # The clamp moves the tensor towards its partner, which lies in the arena.
    return min(max(offset, 0), plan.peak - size)


def unsafe_overlaps(problem: Problem, offsets: IntColumn) -> list[tuple[int, int]]:
    """Return the unsafe pairs of tensors that share bytes, the lower tensor of each pair first."""
    size, end = problem.size, offsets + problem.size
    pairs: list[tuple[int, int]] = []
    for tensor in np.flatnonzero(size).tolist():
        unsafe = problem.core.unsafe_with(tensor)
        unsafe = unsafe[unsafe > tensor]
        shared = (offsets[unsafe] < end[tensor]) & (offsets[tensor] < end[unsafe])
        pairs += [(tensor, other) for other in unsafe[shared & (size[unsafe] > 0)].tolist()]
    return pairs


def without_waits(problem: Problem, count: int) -> Problem:
    """Return a problem without the last control arcs of its graph, where waits were added."""
    graph = problem.graph
    arcs = 0 if graph is None else len(graph.control)
    if graph is None or not 0 <= count <= arcs:
        raise GaplessError(
            f"--without-waits: at most the {arcs} control arcs of {problem.name} are left out, "
            f"found {count}"
        )
    return problem.select(
        np.arange(problem.tensor_count), graph=graph.with_control(graph.control[: arcs - count])
    )
