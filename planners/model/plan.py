"""A plan; and a planner's result: plan, status, bound, certificate and cost."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from planners.model.columns import IntColumn, frozen_column, whole_bytes
from planners.model.problem import Problem, Scalar
from planners.text.byte_units import both_bytes, counted
from planners.text.plain_text import shown

Parameters = Mapping[str, Scalar]


class Status(enum.Enum):
    """The status of a result; a time-out and a proof are never the same status."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    NO_PLAN_FOUND = "no_plan_found"
    UNSUPPORTED = "unsupported"
    INVALID = "invalid"


@dataclass(frozen=True, eq=False, init=False)
class Plan:
    """An offset for every tensor.

    Parameters
    ----------
    offsets
        int64 bytes, one a tensor.
    peak
        Largest ``offset + size``, bytes; 0 without tensors.

    Raises
    ------
    InstanceError
        A number is not whole or does not fit int64, or the peak is negative.
    """

    offsets: IntColumn
    peak: int

    def __init__(self, offsets: Iterable[int] | IntColumn, peak: int) -> None:
        object.__setattr__(self, "offsets", frozen_column("offsets", offsets))
        object.__setattr__(self, "peak", whole_bytes("peak", peak))

    def __repr__(self) -> str:
        return f"<Plan: {counted(len(self.offsets), 'offset')}, peak {both_bytes(self.peak)}>"

    @classmethod
    def of(cls, problem: Problem, offsets: Iterable[int] | IntColumn) -> Plan:
        """Return the plan with these offsets, one a tensor, and the peak that they give."""
        column = frozen_column("offsets", offsets)
        if len(column) != problem.tensor_count:
            return cls(column, 0)
        return cls(column, int((column + problem.size).max(initial=0)))

    @classmethod
    def of_blocks(cls, problem: Problem, heads: IntColumn) -> Plan:
        """Return the plan with these offsets of the blocks, and the peak that they give."""
        blocks = problem.blocks
        offsets = np.empty(problem.tensor_count, dtype=np.int64)
        offsets[blocks.members] = np.repeat(heads, np.diff(blocks.indptr)) + blocks.before
        return cls.of(problem, offsets)


@dataclass(frozen=True)
class Claim:
    """A proof that a third party's planner claims.

    No other result uses the claim. It stands in its planner's own row until a planner of Gapless
    confirms it or a valid plan refutes it.
    """

    # Name of the certificate, as given by the planner; may be empty.
    certificate: str
    # The claimed lower bound in bytes; 0 for none.
    lower_bound: int
    # True if the planner claims that no plan fits.
    infeasible: bool
    # The claimed lower bound on the cost; 0 for none.
    cost_bound: int = 0

    def __str__(self) -> str:
        what = "fits" if self.infeasible else f"is below {self.lower_bound} bytes"
        if self.cost_bound and not self.infeasible:
            what = f"within the capacity costs less than {self.cost_bound}"
        return f"claims by {self.certificate!r} that no plan {what}"


@dataclass(frozen=True)
class Result:
    """The answer of one planner to one problem.

    Parameters
    ----------
    status
        See :class:`Status`.
    plan
        The best plan found, if any.
    lower_bound
        Lower bound on the peak in bytes, as far as the planner or a bound has proven it.
    certificate
        Name of the proof of ``lower_bound``: a bound, or the planner's own search.
    cost
        Sum of the prices that the plan pays, by the referee; None without prices or without a plan.
    cost_bound, cost_certificate
        Lower bound on the cost of a plan within the capacity, and the name of its proof.
    reason
        The reason for no plan, or for no better answer; empty if there is none.
    planner, parameters, seed
        The planner that ran, and its settings.
    seconds, cpu_seconds
        Wall and processor time of the planner alone, its child processes included.
    statistics
        Counters of the search, such as nodes.
    claim
        A proof that a third party's planner claims and no planner of Gapless has confirmed.
    interrupted
        True if Ctrl-C ended the planner, which kept its best plan.
    said
        The planner's own reason, which the judge keeps beside its own; None before that.
    """

    status: Status
    plan: Plan | None = None
    lower_bound: int = 0
    certificate: str = ""
    reason: str = ""
    planner: str = ""
    parameters: Parameters = field(default_factory=dict)
    seed: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    statistics: Mapping[str, Scalar] = field(default_factory=dict)
    claim: Claim | None = None
    interrupted: bool = False
    cost: int | None = None
    said: str | None = None
    cost_bound: int = 0
    cost_certificate: str = ""

    def __repr__(self) -> str:
        # A third party's planner may have put any object into any field.
        parts = [self.status.value if isinstance(self.status, Status) else shown(self.status)]
        if self.plan is not None:
            parts.append(repr(self.plan) if isinstance(self.plan, Plan) else shown(self.plan))
        if self.certificate:
            parts.append(f"lower bound {shown(self.lower_bound)} by {shown(self.certificate)}")
        if self.reason:
            parts.append(shown(self.reason))
        return f"<Result of {shown(self.planner)}: {', '.join(parts)}>"

    @property
    def peak(self) -> int | None:
        """Peak of the plan in bytes; None without a plan."""
        return None if self.plan is None else self.plan.peak

    @property
    def valid(self) -> bool:
        """True unless the referee found the plan invalid."""
        return self.status is not Status.INVALID

    @property
    def gap_to_bound(self) -> float | None:
        """``peak / lower_bound - 1``; None without a plan, infinite if the lower bound is 0."""
        gap = gap_above(self.peak, self.lower_bound)
        return float(np.inf) if gap is None and self.plan is not None else gap


def gap_above(value: int | None, reference: int | None) -> float | None:
    """Return ``value / reference - 1``; None without one of the two, or if it is infinite."""
    if value is None or reference is None or (reference == 0 and value > 0):
        return None
    return 0.0 if reference == 0 else value / reference - 1


def optimal(plan: Plan, certificate: str) -> Result:
    """Return the answer of a planner that proved its plan to be the best."""
    return Result(Status.OPTIMAL, plan, lower_bound=plan.peak, certificate=certificate)


def feasible(plan: Plan, lower_bound: int = 0, certificate: str = "") -> Result:
    """Return the answer of a planner that found a plan, and perhaps a bound."""
    return Result(Status.FEASIBLE, plan, lower_bound=lower_bound, certificate=certificate)


def infeasible(certificate: str, reason: str) -> Result:
    """Return the answer of a planner that proved that no plan fits."""
    return Result(Status.INFEASIBLE, certificate=certificate, reason=reason)


def no_plan_found(reason: str, lower_bound: int = 0, certificate: str = "") -> Result:
    """Return the answer of a planner that found no plan and proved nothing about one."""
    return Result(
        Status.NO_PLAN_FOUND, lower_bound=lower_bound, certificate=certificate, reason=reason
    )
