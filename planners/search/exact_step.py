"""The exact search as one of several that take turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planners.model.budget import Budget
from planners.model.core_instance import lifetimes_decide
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.search.incumbent import Incumbent

ExactSearch = Callable[[Problem, Budget, Plan | None], Findings]
"""Minimises, or with a capacity says whether a plan fits; takes the best plan so far. Its bound is
a proof. ``statistics`` may hold ``nodes``."""

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

    def __init__(self, incumbent: Incumbent, search: ExactSearch, certificate: str) -> None:
        self._incumbent = incumbent
        self._search = search
        self._certificate = certificate
        chains = incumbent.problem.contiguous
        self._nodes = NODES_A_TURN_WITH_CHAINS if chains else NODES_A_TURN

    @property
    def applies(self) -> bool:
        """Whether the problem is small enough."""
        problem = self._incumbent.problem
        if problem.contiguous:
            return problem.blocks.count <= MOST_BLOCKS_WITH_CHAINS
        most = MOST_BLOCKS if lifetimes_decide(problem) else MOST_BLOCKS_IN_GENERAL
        return problem.blocks.count <= most

    def run(self, length: int) -> None:
        """Search once."""
        incumbent = self._incumbent
        nodes = incumbent.most(self._nodes * length)
        budget = replace(incumbent.budget, node_limit=nodes)
        found = self._search(incumbent.problem, budget, incumbent.best)
        used = found.statistics.get("nodes", nodes)
        incumbent.count += min(int(used), nodes)
        if found.plan is not None:
            incumbent.offer(found.plan, "exact search")
        incumbent.prove(found.lower_bound, self._certificate)
        if found.interrupted:
            raise KeyboardInterrupt
