"""The same problem seen otherwise: what was tuned to a file shows on its variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from planners.model.columns import IntColumn
from planners.model.problem import Problem

Variation = Callable[[Problem, np.random.Generator], Problem]

SCALES = (3, 1000)
# The largest share of a size, or of a lifetime at either end, that a variation takes away.
MOST_TAKEN = 0.03


def vary(problem: Problem, variation: str, seed: int) -> Problem:
    """Return a variant of a problem over lifetimes."""
    return VARIATIONS[variation](problem, np.random.default_rng(seed))


def _mirrored(problem: Problem, _rng: np.random.Generator) -> Problem:
    last = problem.end.max(initial=0)
    return _with(problem, start=last - problem.end, end=last - problem.start)


def _shuffled(problem: Problem, rng: np.random.Generator) -> Problem:
    return problem.select(rng.permutation(problem.tensor_count))


def _scaled(problem: Problem, rng: np.random.Generator) -> Problem:
    factor = int(rng.choice(SCALES))
    scaled = _with(problem, size=problem.size * factor)
    capacity = problem.capacity
    return scaled.with_capacity(None if capacity is None else capacity * factor)


def _smaller(problem: Problem, rng: np.random.Generator) -> Problem:
    """Take up to a few per cent of every size, in the unit that divides them all."""
    unit = max(1, int(np.gcd.reduce(problem.size, initial=0)))
    taken = (problem.size * _shares(problem, rng) / unit).round().astype(np.int64) * unit
    return _with(problem, size=problem.size - taken)


def _shorter(problem: Problem, rng: np.random.Generator) -> Problem:
    """Take up to a few per cent of every lifetime, at either end."""
    steps = problem.end - problem.start
    late, early = ((steps * _shares(problem, rng)).astype(np.int64) for _ in range(2))
    return _with(problem, start=problem.start + late, end=problem.end - early)


def _twice(problem: Problem, rng: np.random.Generator) -> Problem:
    """Return the problem and, from its last step on, its mirror image in another order."""
    other = _shuffled(_mirrored(problem, rng), rng)
    shift = problem.end.max(initial=0)
    return _with(
        problem,
        size=np.concatenate([problem.size, other.size]),
        start=np.concatenate([problem.start, other.start + shift]),
        end=np.concatenate([problem.end, other.end + shift]),
    )


def _shares(problem: Problem, rng: np.random.Generator) -> NDArray[np.float64]:
    return rng.uniform(0, MOST_TAKEN, problem.tensor_count)


def _with(
    problem: Problem,
    size: IntColumn | None = None,
    start: IntColumn | None = None,
    end: IntColumn | None = None,
) -> Problem:
    return Problem(
        problem.size if size is None else size,
        problem.start if start is None else start,
        problem.end if end is None else end,
        capacity=problem.capacity,
        name=problem.name,
    )


VARIATIONS: Mapping[str, Variation] = {
    "mirrored in time": _mirrored,
    "in another order": _shuffled,
    "sizes times 3 or 1,000": _scaled,
    "sizes up to 3 % smaller": _smaller,
    "lifetimes up to 6 % shorter": _shorter,
    "twice, the second mirrored": _twice,
}
