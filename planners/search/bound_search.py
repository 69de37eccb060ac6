"""Lower bounds that take long: their computation continues in turns."""

from __future__ import annotations

from planners.model.bounds import bounds_are_known
from planners.model.problem import Problem
from planners.search.turns import Search


class BoundSearch(Search):
    """Continues the computation of bounds, in a share of the time left."""

    name = "bounds"

    @classmethod
    def reason_against(cls, problem: Problem) -> str | None:
        return "every bound is known" if bounds_are_known(problem) else None

    def run(self, length: int) -> None:  # noqa: ARG002
        """Compute bounds for a share of the time left."""
        self._incumbent.ask_for_bounds()
