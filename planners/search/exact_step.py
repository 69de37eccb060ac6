"""The exact search as one of several: for some nodes at a time, and twice as many the next time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planners.budget import Budget
from planners.greedy.attempts import Attempts
from planners.plan import Plan, Result, Status
from planners.problem import Problem

ExactSearch = Callable[[Problem, Budget, Plan | None], Result]
"""Minimises, or with a capacity says whether a plan fits. Takes the best plan so far. ``optimal``
and ``infeasible`` are proofs. ``statistics`` may hold ``nodes``, and ``interrupted`` after
Ctrl-C."""

# An exact search gets nowhere with more blocks, and would only keep the others waiting.
MOST_BLOCKS = 3_000
FIRST_NODES = 100_000


class ExactStep:
    """Asks an exact search again and again, with a limit that doubles.

    Parameters
    ----------
    attempts
        Where better plans go; nodes count as attempts.
    search
        The exact search.
    """

    def __init__(self, attempts: Attempts, search: ExactSearch) -> None:
        self.search = search
        self.exhausted = False
        self.lower_bound = 0
        self._attempts = attempts
        self._nodes = FIRST_NODES

    @property
    def applies(self) -> bool:
        """Whether the problem is small enough."""
        return self._attempts.problem.blocks.count <= MOST_BLOCKS

    def run(self) -> None:
        """Search once.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C ended the search, which has handed over what it had.
        """
        attempts = self._attempts
        nodes = attempts.most(self._nodes)
        self._nodes *= 2
        budget = replace(attempts.budget, node_limit=nodes)
        result = self.search(attempts.problem, budget, attempts.best)
        used = result.statistics.get("nodes", nodes)
        attempts.count += min(int(used), nodes)
        if result.plan is not None:
            attempts.offer(result.plan, "exact search")
        self.exhausted = result.status in (Status.OPTIMAL, Status.INFEASIBLE)
        self.lower_bound = max(self.lower_bound, result.lower_bound)
        if result.statistics.get("interrupted"):
            raise KeyboardInterrupt
