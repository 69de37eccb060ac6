"""Every greedy planner, each as long as its plan can still become the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product

from planners.greedy.place import FITS
from planners.greedy.sort_keys import ORDERS, block_order
from planners.model.blocks import NOT_PINNED
from planners.model.columns import IntColumn
from planners.model.core_instance import lifetimes_decide
from planners.model.problem import Problem
from planners.search.incumbent import Incumbent


class Portfolio:
    """The greedy planners of a problem, with the orders that they share."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._orders: dict[str, IntColumn] = {}
        families = [("greedy", False)]
        if (problem.blocks.pinned == NOT_PINNED).all():
            families.append(("many-objects", True))
            if not lifetimes_decide(problem):
                families.reverse()  # over rows of unsafe pairs objects cost less
        # First fit costs less, and the orders stand from the best on most problems to the worst.
        self._planners = [
            (f"{family}-{order}-{fit}", order, fit, objects)
            for fit, order, (family, objects) in product(
                FITS, ("size", "breadth", "unsafe", "source"), families
            )
        ]

    def run(self, incumbent: Incumbent, prove: Callable[[], None] = lambda: None) -> None:
        """Run every planner, and between the first and the others look for a proof.

        Note: what a proof may cost. Whoever asks for a plan within a time is owed the best that
        greedy planners reach in that time, so nothing else may take what they need. The first one
        is timed, and as much is kept for each of the others; they mostly end sooner, for they are
        given up where they get worse than the best. What is left beyond that goes to the proof,
        which mostly succeeds and saves all the others.
        """
        started = time.monotonic()
        self.run_first(incumbent)
        if incumbent.over:
            return
        with incumbent.leaving((time.monotonic() - started) * len(self._planners[1:])):
            incumbent.require_time()
            prove()
        self.run_others(incumbent, only_goal=False)

    def run_first(self, incumbent: Incumbent) -> None:
        """Run the first planner to its end, so that there is a plan."""
        self._run(self._planners[:1], incumbent, only_goal=False)

    def run_others(self, incumbent: Incumbent, *, only_goal: bool) -> None:
        """Run the other planners one after the other, until the attempts are over."""
        self._run(self._planners[1:], incumbent, only_goal=only_goal)

    def _run(
        self,
        planners: Iterable[tuple[str, str, str, bool]],
        incumbent: Incumbent,
        *,
        only_goal: bool,
    ) -> None:
        for name, order, fit, objects in planners:
            if incumbent.over:
                return
            incumbent.require_time()
            blocks = self._by(order)
            incumbent.place(blocks, name, fit, objects=objects, only_goal=only_goal)

    def orders(self) -> Iterator[tuple[str, IntColumn]]:
        """Yield the name of each order, and the blocks in it."""
        for name in ORDERS:
            yield name, self._by(name)

    def _by(self, order: str) -> IntColumn:
        if order not in self._orders:
            key = ORDERS[order](self._problem)
            self._orders[order] = block_order(self._problem.blocks, key)
        return self._orders[order]
