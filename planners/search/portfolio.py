"""Every greedy planner, each as long as its plan can still become the best."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from planners.blocks import NOT_PINNED
from planners.columns import IntColumn
from planners.greedy.attempts import Attempts
from planners.greedy.orders import ORDERS, block_order
from planners.greedy.place import FITS
from planners.problem import Problem


class Portfolio:
    """The greedy planners of a problem, with the orders that they share.

    Parameters
    ----------
    problem
        Any. Without pins the planners with objects take part too.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._orders: dict[str, IntColumn] = {}
        families = {"greedy": False}
        if (problem.blocks.pinned == NOT_PINNED).all():
            families["many-objects"] = True
        # First fit costs less, and the orders stand from the best on most problems to the worst.
        self._planners = [
            (f"{family}-{order}-{fit}", order, fit, objects)
            for fit, order, (family, objects) in product(
                FITS, ("size", "breadth", "unsafe", "source"), families.items()
            )
        ]

    def run(self, attempts: Attempts, *, only_goal: bool) -> None:
        """Run the planners one after the other, until the attempts are over.

        Parameters
        ----------
        attempts
            What is tried, and the best plan so far. The first planner is run to its end where
            there is none.
        only_goal
            Whether to give a planner up where it misses the goal, not only where it is worse than
            the best plan.

        Raises
        ------
        TimeoutError
            The time limit passed.
        """
        for name, order, fit, objects in self._planners:
            if attempts.over:
                return
            attempts.place(
                self._by(order),
                name,
                fit,
                objects=objects,
                only_goal=only_goal and attempts.best is not None,
            )

    def orders(self) -> Iterator[tuple[str, IntColumn]]:
        """Yield the name of each order, and the blocks in it."""
        for name in ORDERS:
            yield name, self._by(name)

    def _by(self, order: str) -> IntColumn:
        if order not in self._orders:
            key = ORDERS[order](self._problem)
            self._orders[order] = block_order(self._problem.blocks, key)
        return self._orders[order]
