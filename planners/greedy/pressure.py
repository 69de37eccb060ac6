"""Pressure: tensors that are alive where memory is tightest come first, in many orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from planners.bounds import bounds_of
from planners.budget import Budget
from planners.columns import IntColumn
from planners.greedy.place import place
from planners.live_bytes import live_profile
from planners.plan import Plan, Result, feasible, optimal
from planners.problem import Problem, Safety
from planners.registry import UnsupportedProblemError, register

# Shares of the largest pressure from which a tensor belongs to the first level; at the last one
# all do, which is first fit by one key.
THRESHOLDS = (1.0, 0.999, 0.99, 0.98, 0.95, 0.9, 0.8, 0.5, 0.0)

KEYS: dict[str, Callable[[Problem], NDArray[np.generic]]] = {
    "largest": lambda problem: -problem.size,
    "longest": lambda problem: problem.start - problem.end,
    "earliest start": lambda problem: problem.start,
    "latest start": lambda problem: -problem.start,
    "earliest end": lambda problem: problem.end,
    "latest end": lambda problem: -problem.end,
    # As floating point: bytes times steps may leave int64, and ties among huge areas do no harm.
    "largest area": lambda problem: (
        -problem.size.astype(np.float64) * (problem.end - problem.start)
    ),
}


@register(
    "pressure",
    summary="First fit in two levels, tensors of the tightest steps first, over many pairs of keys",
    source="Gapless",
)
def pressure_planner(problem: Problem, budget: Budget) -> Result:
    """Try first fit in two levels until a plan meets a bound.

    Note: why two levels. A plan meets the lifetime bound only if the tensors that are alive at
    the tightest steps leave no gap there. One sort key for all tensors lets some that are never
    alive at such a step take addresses first and break the packing of those that are. So those
    of the tightest steps are placed first, by a key of their own, and the others fill what is
    left. Which keys do it depends on the instance, and an attempt costs milliseconds: all pairs
    are tried, at falling thresholds of what counts as tight.

    Parameters
    ----------
    problem
        With lifetimes, given or from its graph; chains, alignment, pins and gaps are handled.
    budget
        The best plan so far is the answer when the time is over; ``node_limit`` counts attempts.

    Returns
    -------
    Result
        ``statistics``: ``attempts``, and ``order`` of the best plan.

    Raises
    ------
    UnsupportedProblemError
        Nothing is known of lifetimes.
    TimeoutError
        The time was over before the first plan was complete.
    """
    if problem.safety is Safety.PAIRS:
        raise UnsupportedProblemError("explicit pairs: pressure is measured over lifetimes")
    bound = max(bounds_of(problem, budget.remaining_seconds()), key=lambda known: known.bytes)
    best: Plan | None = None
    best_order, attempts = "", 0
    for order, ranks in two_level_orders(problem):
        if best is not None and attempts == budget.node_limit:
            break
        try:
            plan = place(problem, ranks, "first", budget=budget)
        except TimeoutError:
            if best is None:
                raise
            break
        attempts += 1
        if best is None or plan.peak < best.peak:
            best, best_order = plan, order
        if best.peak == bound.bytes:
            break
    assert best is not None
    proven = best.peak == bound.bytes
    answer = optimal(best, bound.name) if proven else feasible(best, bound.bytes, bound.name)
    return replace(answer, statistics={"attempts": attempts, "order": best_order})


def two_level_orders(problem: Problem) -> Iterator[tuple[str, IntColumn]]:
    """Yield every order: at each threshold, each pair of keys for the two levels.

    Parameters
    ----------
    problem
        With lifetimes.

    Yields
    ------
    tuple of str and numpy.ndarray
        What the order is, and the int64 rank of each tensor. A threshold that selects the same
        tensors as the one before is left out.
    """
    pressure = pressures(problem)
    keys = {name: key(problem) for name, key in KEYS.items()}
    seen = -1
    for threshold in THRESHOLDS:
        second = pressure < threshold * pressure.max(initial=0)
        selected = problem.tensor_count - int(second.sum())
        if selected == seen:
            continue
        seen = selected
        # Without a second level its key says nothing.
        second_keys = list(keys) if second.any() else list(keys)[:1]
        for first_key, second_key in product(keys, second_keys):
            order = np.lexsort((np.where(second, keys[second_key], keys[first_key]), second))
            ranks = np.empty(problem.tensor_count, dtype=np.int64)
            ranks[order] = np.arange(problem.tensor_count)
            yield f"{threshold}: {first_key}, then {second_key}", ranks


def pressures(problem: Problem) -> IntColumn:
    """Return the pressure of each tensor: the most bytes alive at a step of its lifetime.

    Parameters
    ----------
    problem
        With lifetimes.

    Returns
    -------
    numpy.ndarray
        int64 bytes, one a tensor. A gap in a lifetime counts as a part of it.
    """
    if not problem.tensor_count:
        return np.empty(0, dtype=np.int64)
    steps, live = live_profile(problem)
    # A gap may open a lifetime, which then starts between two changes, or before the first.
    first = np.maximum(np.searchsorted(steps, problem.start, side="right") - 1, 0)
    length = np.searchsorted(steps, problem.end) - first
    return _range_maximum(live, first, length)


def _range_maximum(values: IntColumn, first: IntColumn, length: IntColumn) -> IntColumn:
    """Return the maxima of ranges of at least one entry, by ranges of powers of two."""
    maxima = np.empty(len(first), dtype=np.int64)
    power = np.frexp(length.astype(np.float64))[1] - 1
    window = values
    for exponent in range(int(power.max()) + 1):
        width = 1 << exponent
        chosen = power == exponent
        # Two windows that overlap cover a range between one and two widths long.
        left = first[chosen]
        maxima[chosen] = np.maximum(window[left], window[left + length[chosen] - width])
        window = np.maximum(window[:-width], window[width:]) if len(window) > width else window
    return maxima
