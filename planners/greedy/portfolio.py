"""The portfolio: every greedy planner runs while its plan can still become the best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import product

from planners.greedy.place import FITS, place_better
from planners.greedy.sort_keys import ORDERS, block_order
from planners.model.blocks import NOT_PINNED
from planners.model.columns import IntColumn
from planners.model.incumbent import Incumbent
from planners.model.problem import Problem


class Portfolio:
    """The greedy planners of a problem, with the orders that they share."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._orders: dict[str, IntColumn] = {}
        families = [("greedy", False)]
        if (problem.blocks.pinned == NOT_PINNED).all():
            families.append(("many-objects", True))
            if not problem.lifetimes_decide:
                families.reverse()  # for rows of unsafe pairs, objects cost less
        # First fit costs less. The orders are sorted from the best on most problems to the worst.
        self._planners = [
            (f"{family}-{order}-{fit}", order, fit, objects)
            for fit, order, (family, objects) in product(
                FITS, ("size", "breadth", "unsafe", "source"), families
            )
        ]

    def run(self, incumbent: Incumbent, prove: Callable[[], None] = lambda: None) -> None:
        """Run every planner, and look for a proof between the first and the others.

        Note: the time for a proof. The search for a proof must leave every greedy planner enough
        time to end within the time limit. So the first planner is timed, and as much time is
        reserved for each of the others. They mostly end sooner, because a planner stops when its
        plan gets worse than the best. The remaining time goes to the proof. A proof mostly
        succeeds, and then the other planners need not run.
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
        """Run the other planners one after the other, until the incumbent is over."""
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
            place_better(incumbent, blocks, name, fit, objects=objects, only_goal=only_goal)

    @property
    def all_orders(self) -> list[IntColumn]:
        """The blocks in each of the orders."""
        return [self._by(name) for name in ORDERS]

    def _by(self, order: str) -> IntColumn:
        if order not in self._orders:
            key = ORDERS[order](self._problem)
            self._orders[order] = block_order(self._problem.blocks, key)
        return self._orders[order]
