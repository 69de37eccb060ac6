"""What an exact search did, beside the plan and the bound that it started from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planners.model.plan import Plan
from planners.model.problem import Scalar


@dataclass(frozen=True)
class SearchOutcome:
    """What a search found and proved."""

    # The best plan that the search found, if any.
    plan: Plan | None = None
    # Whether the search proved that no plan is better than the best of ``plan`` and the incumbent;
    # or, with a capacity that the best does not fit, that none fits.
    exhausted: bool = False
    # Bytes that the search proved; 0 for nothing.
    lower_bound: int = 0
    # Why the search did not finish; empty where nothing needs saying.
    reason: str = ""
    # Counters of the search.
    statistics: Mapping[str, Scalar] = field(default_factory=dict)
    # Whether Ctrl-C ended it.
    interrupted: bool = False
