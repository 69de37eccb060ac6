"""What a planner found and proved, before the judge has said what that makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planners.model.plan import Plan, Status
from planners.model.problem import Scalar


@dataclass(frozen=True)
class Findings:
    """What a planner of ours answers: it has no status, for the judge alone gives one."""

    # The best plan, if any.
    plan: Plan | None = None
    # Bytes that no plan can stay below, and the name of what proves it.
    lower_bound: int = 0
    certificate: str = ""
    # Why there is no plan, or no better one; empty where nothing needs saying.
    reason: str = ""
    # Whether Ctrl-C ended the search.
    interrupted: bool = False
    # Counters of the search.
    statistics: Mapping[str, Scalar] = field(default_factory=dict)
    # What a planner says of itself that is not in its plan and bound: that it does not support the
    # problem, that it failed, that no plan fits, or whatever a third party's result has.
    claimed: Status | None = None
    # Seconds since the planner began, and the peak that it had reached then; empty where it does
    # not tell. Two findings are the same whenever they were found.
    incumbents: Sequence[tuple[float, int]] = field(default=(), compare=False)
