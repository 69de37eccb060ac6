"""Variants of a problem, which show whether a planner was tuned to that very instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from planners.errors import InstanceError
from planners.model.blocks import NOT_PINNED
from planners.model.columns import IntColumn
from planners.model.plain_form import is_plain
from planners.model.problem import Problem, Safety

Variation = Callable[[Problem, np.random.Generator], Problem]

SCALES = (3, 1000)
# The largest share of a size, or of a lifetime at either end, that a variation takes away.
MOST_TAKEN = 0.03


def vary(problem: Problem, variation: str, seed: int) -> Problem:
    """Return a variant of a problem of lifetimes; if one fits its capacity, so does the other.

    The variant keeps only sizes, lifetimes, capacity and name.
    """
    _require_lifetimes_alone(problem)
    return VARIATIONS[variation](problem, np.random.default_rng(seed))


def is_drawn(variation: str) -> bool:
    """Return True if a variation depends on its seed."""
    return VARIATIONS[variation] is not _mirrored


def _require_lifetimes_alone(problem: Problem) -> None:
    features = {
        f"safety by {problem.safety.value}": problem.safety is not Safety.LIFETIMES,
        "gaps in lifetimes": len(problem.gaps) > 0,
        "an alignment above 1": (problem.alignment > 1).any(),
        "contiguous chains": len(problem.contiguous) > 0,
        "given offsets": (problem.pinned != NOT_PINNED).any(),
        "prices of reuse": len(problem.reuse_prices) > 0,
        "memories or classes of tensors": not is_plain(problem),
    }
    for feature, is_there in features.items():
        if is_there:
            raise InstanceError(
                f"instance {problem.name}: to be varied, sizes and lifetimes alone are needed, "
                f"found {feature}"
            )


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
    "mirrored": _mirrored,
    "shuffled": _shuffled,
    "scaled": _scaled,
    "smaller": _smaller,
    "shorter": _shorter,
    "twice": _twice,
}
