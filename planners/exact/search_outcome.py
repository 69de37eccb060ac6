"""The outcome of an exact search, apart from the plan and bound that it started from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planners.model.plan import Plan
from planners.model.problem import Scalar


@dataclass(frozen=True)
class SearchOutcome:
    """The plan and the proofs of a search."""

    # The best plan that the search found, if any.
    plan: Plan | None = None
    # True if the search proved that no plan is better than the best of ``plan`` and the incumbent;
    # or, with a capacity that this best plan exceeds, that no plan fits.
    exhausted: bool = False
    # The lower bound in bytes that the search proved; 0 for none.
    lower_bound: int = 0
    # Why the search did not finish; empty if it did.
    reason: str = ""
    # Counters of the search.
    statistics: Mapping[str, Scalar] = field(default_factory=dict)
    # True if Ctrl-C ended the search.
    interrupted: bool = False
