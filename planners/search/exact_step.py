"""The exact search as one of several that take turns."""

from __future__ import annotations

from dataclasses import replace

from planners.model.problem import Problem
from planners.search.turns import Search, Shared

# The most blocks for which the exact search takes turns, where lifetimes decide, where a clique
# cover of unsafe pairs decides, and with chains. With more blocks it proves nothing and delays the
# other searches. Guesses.
MOST_BLOCKS = 3_000
MOST_BLOCKS_IN_GENERAL = 1_000
MOST_BLOCKS_WITH_CHAINS = 500
# Nodes in the first turn. With chains a node examines all blocks, so the limit is one of blocks in
# all nodes.
NODES_A_TURN = 5_000
BLOCKS_A_TURN_WITH_CHAINS = 200_000


class ExactStep(Search):
    """Asks an exact search repeatedly, each time with more nodes.

    A search that remembers the problem continues where it stopped, with the best plan of all
    searches.
    """

    name = "exact"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        problem = shared.incumbent.problem
        self._nodes = NODES_A_TURN
        if problem.contiguous:
            self._nodes = max(1, BLOCKS_A_TURN_WITH_CHAINS // problem.blocks.count)

    @classmethod
    def reason_against(cls, problem: Problem) -> str | None:
        most = MOST_BLOCKS if problem.lifetimes_decide else MOST_BLOCKS_IN_GENERAL
        if problem.contiguous:
            most = MOST_BLOCKS_WITH_CHAINS
        return f"more than {most} such blocks" if problem.blocks.count > most else None

    def run(self, length: int) -> None:
        """Search once."""
        incumbent = self._incumbent
        nodes = incumbent.most(self._nodes * length)
        budget = replace(incumbent.budget, node_limit=nodes)
        found = self._shared.exact(incumbent.problem, budget, incumbent.best)
        used = found.statistics.get("nodes", nodes)
        incumbent.count += min(int(used), nodes)
        incumbent.prove(found.lower_bound, self._shared.certificate)
        incumbent.take(found, "exact search")
