"""The exact search as one of several that take turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planners.greedy.incumbent import Incumbent
from planners.model.budget import Budget
from planners.model.core_instance import lifetimes_decide
from planners.model.plan import Plan, Result, Status
from planners.model.problem import Problem

ExactSearch = Callable[[Problem, Budget, Plan | None], Result]
"""Minimises, or with a capacity says whether a plan fits. Takes the best plan so far. ``optimal``
and ``infeasible`` are proofs. ``statistics`` may hold ``nodes``, and ``interrupted`` after
Ctrl-C."""

# An exact search gets nowhere with more blocks, and would only keep the others waiting: over
# lifetimes; over other unsafe pairs, which it first covers by cliques; and with chains.
MOST_BLOCKS = 3_000
MOST_BLOCKS_IN_GENERAL = 1_000
MOST_BLOCKS_WITH_CHAINS = 500
# Nodes in the first turn, and where chains make a node cost ten times as much.
NODES_A_TURN = 5_000
NODES_A_TURN_WITH_CHAINS = 500


class ExactStep:
    """Asks an exact search again and again, each time for more nodes.

    One that remembers the problem goes on where it stopped, with the best plan of all searches.
    """

    def __init__(self, attempts: Incumbent, search: ExactSearch) -> None:
        self.search = search
        self.exhausted = False
        self.lower_bound = 0
        self._attempts = attempts
        self._nodes = NODES_A_TURN_WITH_CHAINS if attempts.problem.contiguous else NODES_A_TURN

    @property
    def applies(self) -> bool:
        """Whether the problem is small enough."""
        problem = self._attempts.problem
        if problem.contiguous:
            return problem.blocks.count <= MOST_BLOCKS_WITH_CHAINS
        most = MOST_BLOCKS if lifetimes_decide(problem) else MOST_BLOCKS_IN_GENERAL
        return problem.blocks.count <= most

    def run(self, length: int) -> None:
        """Search once."""
        attempts = self._attempts
        nodes = attempts.most(self._nodes * length)
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
