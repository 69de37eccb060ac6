"""Lower bounds that took too long before: what is left of them is computed in turns."""

from __future__ import annotations

from planners.model.bounds import bounds_are_known
from planners.model.problem import Problem
from planners.search.turns import Search


class BoundSearch(Search):
    """Computes bounds further, in a share of the time that is left."""

    name = "bounds"
    is_seeded = False

    @classmethod
    def reason_against(cls, problem: Problem) -> str | None:
        """Return that nothing is left to compute."""
        return "every bound is known" if bounds_are_known(problem) else None

    def run(self, length: int) -> None:  # noqa: ARG002
        """Compute bounds for a share of the time that is left."""
        self._incumbent.ask_for_bounds()
