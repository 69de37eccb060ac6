"""The findings of a planner, before the judge derives a status from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planners.model.plan import Parameters, Plan, Status
from planners.model.problem import Scalar


@dataclass(frozen=True)
class Findings:
    """The answer of a Gapless planner. It has no status, because only the judge assigns one."""

    # The best plan, if any.
    plan: Plan | None = None
    # A lower bound in bytes, and the name of its proof.
    lower_bound: int = 0
    certificate: str = ""
    # Why there is no plan, or no better one; empty if there is nothing to say.
    reason: str = ""
    # True if Ctrl-C ended the search.
    interrupted: bool = False
    # Counters of the search.
    statistics: Mapping[str, Scalar] = field(default_factory=dict)
    # A planner's own statement beyond its plan and bound: that it does not support the problem,
    # that it failed, that no plan fits, or the status of a third party's result.
    claimed: Status | None = None
    # Pairs of the seconds since the planner began and the peak reached by then; empty if the
    # planner does not report them. They are ignored when findings are compared.
    incumbents: Sequence[tuple[float, int]] = field(default=(), compare=False)
    # A lower bound on the cost of a plan within the capacity, and the name of its proof.
    cost_bound: int = 0
    cost_certificate: str = ""


@dataclass(frozen=True)
class PlannerAnswer:
    """The findings of one planner on one problem, with the run that they come from."""

    # Planner and parameters, as written on the command line.
    label: str
    found: Findings
    # False if the proofs that the planner states are claims.
    proofs_count: bool = True
    planner: str = ""
    parameters: Parameters = field(default_factory=dict)
    seed: int = 0
    # Wall and processor time.
    seconds: float = 0.0
    cpu_seconds: float = 0.0
