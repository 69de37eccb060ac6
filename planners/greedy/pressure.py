"""Pressure: the tensors that are alive at the steps with the most live bytes come first.

Note [Pressure]
~~~~~~~~~~~~~~~
The pressure of a tensor is the weight of the heaviest known set of pairwise unsafe tensors that
contains it: the most bytes alive at a step of its lifetime and, with several streams, the whole
antichain bound for the tensors that witness it. A chain has the largest pressure of its members.

*Why levels.* A plan meets the bound M only if the tensors of a heaviest set leave no gap between
each other. One sort key for all tensors lets tensors outside of the set take addresses first. Then
the tensors of the set find only holes that are too small, and the peak rises above M at the one
step without spare bytes. If the set comes first, any order of it stacks up to exactly M, since its
members are pairwise unsafe. The tensors after it have room to spare: at each step of their
lifetimes less than M bytes are alive.

*Why the keys.* Away from the tightest step only some of the stacked tensors are alive. The bytes of
the dead ones are the room for all other tensors. If the stack is ordered by start, or by end, it
dies from one end on: its room is one piece on that side of the step. If it is ordered by length,
the room is one piece on both sides, provided that lifetimes nest as those of activations do. The
order of sizes leaves room of similar sizes, which suits the repetitions of a model. Which order
works depends on the instance. An attempt costs one scan of the blocks, so all pairs of keys are
tried.

*Why more levels.* The tensors alive at the second-tightest step have the least room of the rest,
and so on. Falling thresholds let the first level hold more than one peak, and a level for every
twentieth of the pressure places one peak after the other. (A level for every pressure would be
greedy by breadth with another key among equals; it met no more bounds.)

*Why it is fast.* The first round only accepts the bound itself: an attempt ends at the first block
that exceeds it, mostly after a small part of the blocks. If an attempt ends within its first level,
every other second key would end there too, and is skipped. Only if no order meets the bound, a
second round asks for any plan better than the best. Each key is sorted once; an order merges two
sorts.

*Limits.* A level says nothing about the tensors within it together. An instance that is tight
everywhere, as the MiniMalloc ones are, needs a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from planners.greedy.place import place_better
from planners.greedy.sort_keys import block_order
from planners.greedy.stages import ask_for_bounds_after_a_plan, plan_in_stages
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.findings import Findings
from planners.model.incumbent import Incumbent
from planners.model.problem import Problem, Safety
from planners.model.problem_fields import liveness
from planners.registry import UnsupportedProblemError, register

# A tensor belongs to the first level if its pressure is at least this share of the largest. At the
# last share all tensors belong to it, which is first fit by one key. Guesses.
THRESHOLDS = (1.0, 0.999, 0.99, 0.98, 0.95, 0.9, 0.8, 0.5, 0.0)

# Number of equally high levels below the first, for problems with many peaks. A guess.
STEPS = 20

KEYS: dict[str, Callable[[Problem], NDArray[np.generic]]] = {
    "largest": lambda problem: -problem.size,
    "longest": lambda problem: problem.start - problem.end,
    "earliest start": lambda problem: problem.start,
    "latest start": lambda problem: -problem.start,
    "earliest end": lambda problem: problem.end,
    "latest end": lambda problem: -problem.end,
    # As floats: bytes times steps may exceed an int64, and ties among huge areas do no harm.
    "largest area": lambda problem: (
        -problem.size.astype(np.float64) * (problem.end - problem.start)
    ),
}


@register(
    "pressure",
    summary="First fit in levels, tensors of the tightest steps first, over many pairs of keys",
    source="Gapless",
)
def pressure_planner(problem: Problem, budget: Budget) -> Findings:
    """Try first fit in levels of falling pressure until a plan meets a bound.

    A node limit counts attempts.
    """
    if problem.safety is Safety.PAIRS:
        raise UnsupportedProblemError("explicit pairs: pressure is measured over lifetimes")
    incumbent = Incumbent(problem, budget)
    return plan_in_stages(
        incumbent,
        [
            lambda: ask_for_bounds_after_a_plan(incumbent, first_orders),
            lambda: _run_both_rounds(incumbent),
        ],
    )


def _run_both_rounds(incumbent: Incumbent) -> None:
    orders = PressureOrders(incumbent.problem, incumbent.bound)
    for only_goal in (True, False):
        orders.run(incumbent, only_goal=only_goal)


def first_orders(problem: Problem, bound: Bound) -> Iterator[tuple[str, IntColumn]]:
    """Return the orders of the first family."""
    _, orders = next(PressureOrders(problem, bound).families())
    return orders


class PressureOrders:
    """Orders of the blocks by levels of falling pressure, and by a key within each level."""

    def __init__(self, problem: Problem, bound: Bound) -> None:
        self._problem = problem
        pressure = pressures(problem)
        pressure[bound.witness] = np.maximum(pressure[bound.witness], bound.bytes)
        blocks = problem.blocks
        self._pressure = pressure
        if blocks.count:
            self._pressure = np.maximum.reduceat(pressure[blocks.members], blocks.indptr[:-1])
        self._sorted: dict[str, IntColumn] = {}

    def run(self, incumbent: Incumbent, *, only_goal: bool) -> None:
        """Place the blocks in one order after another, until the goal is met or effort is spent."""
        for first_level, orders in self.families():
            incumbent.require_time()
            for name, order in orders:
                if incumbent.over:
                    return
                placed = place_better(
                    incumbent, order, name, only_goal=only_goal and incumbent.best is not None
                )
                if placed < first_level:
                    break

    def families(self) -> Iterator[tuple[int, Iterator[tuple[str, IntColumn]]]]:
        """Yield families of orders that share their first level, with its number of blocks."""
        seen = -1
        for threshold in THRESHOLDS:
            tight = self._pressure >= threshold * self._pressure.max(initial=0)
            selected = int(tight.sum())
            if selected == seen:
                continue
            seen = selected
            for key in KEYS:
                yield selected, self._family(f"{threshold}: {key}", key, tight, self._by)
        tight = self._pressure == self._pressure.max(initial=0)
        if not tight.all():
            for key in KEYS:
                family = self._family(f"steps: {key}", key, tight, self._by_steps)
                yield int(tight.sum()), family

    def _family(
        self,
        name: str,
        first_key: str,
        tight: NDArray[np.bool_],
        second_level: Callable[[str], IntColumn],
    ) -> Iterator[tuple[str, IntColumn]]:
        first = self._by(first_key)
        if tight.all():
            yield name, first
            return
        first = first[tight[first]]
        for key in KEYS:
            second = second_level(key)
            yield f"{name}, then {key}", np.concatenate([first, second[~tight[second]]])

    def _by(self, key: str) -> IntColumn:
        if key not in self._sorted:
            self._sorted[key] = block_order(self._problem.blocks, KEYS[key](self._problem))
        return self._sorted[key]

    def _by_steps(self, key: str) -> IntColumn:
        """Return the blocks in ``STEPS`` levels of falling pressure, each sorted by a key."""
        order = self._by(key)
        step = self._pressure // max(1, -(-self._pressure.max(initial=1) // STEPS))
        return order[np.argsort(-step[order], kind="stable")]


def pressures(problem: Problem) -> IntColumn:
    """Return the pressure of each tensor: the most bytes alive at a step of its lifetime."""
    if not problem.tensor_count:
        return np.empty(0, dtype=np.int64)
    steps, live = liveness(problem)
    # Live bytes change only at `steps`. A lifetime may begin with a gap, so a tensor may start
    # between two of these steps, or before the first.
    first = np.maximum(np.searchsorted(steps, problem.start, side="right") - 1, 0)
    length = np.searchsorted(steps, problem.end) - first
    return _range_maximum(live, first, length)


def _range_maximum(values: IntColumn, first: IntColumn, length: IntColumn) -> IntColumn:
    """Return the maxima of nonempty ranges, by a sparse table of powers of two."""
    maxima = np.empty(len(first), dtype=np.int64)
    power = np.frexp(length.astype(np.float64))[1] - 1
    window = values
    for exponent in range(int(power.max()) + 1):
        width = 1 << exponent
        chosen = power == exponent
        # Two overlapping windows cover a range between one and two widths long.
        left = first[chosen]
        maxima[chosen] = np.maximum(window[left], window[left + length[chosen] - width])
        window = np.maximum(window[:-width], window[width:]) if len(window) > width else window
    return maxima
