"""The static part of a problem: the tensors whose size and lifetime every iteration repeats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planners.errors import InstanceError
from planners.model.columns import BoolColumn, IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety
from planners.model.reference import without_reference


@dataclass(frozen=True, eq=False)
class StaticPart:
    """The static tensors of a problem as a problem of their own."""

    problem: Problem
    # int64, the numbers of its tensors in the whole problem, ascending.
    tensors: IntColumn

    def plan_within(self, plan: Plan) -> Plan:
        """Return the plan of the static tensors within a plan of the whole problem."""
        return Plan.of(self.problem, plan.offsets[self.tensors])


def is_dynamic(problem: Problem) -> BoolColumn:
    """Return True for each dynamic tensor; all False if the problem has no column for it."""
    if problem.dynamic is None:
        return np.zeros(problem.tensor_count, dtype=np.bool_)
    return problem.dynamic


def static_part(problem: Problem) -> StaticPart:
    """Return the problem of the static tensors, or the problem itself if no tensor is dynamic.

    Source: Huang et al. 2026, section 4: the set of requests with d = false.
    """
    dynamic = is_dynamic(problem)
    tensors = np.flatnonzero(~dynamic)
    if not dynamic.any():
        return StaticPart(problem, tensors)
    _require_lifetimes(problem)
    _require_static_chains(problem, dynamic)
    part = problem.select(
        tensors,
        dynamic=None,
        name=f"{problem.name}, static",
        origin={**without_reference(problem.origin), "static_part": True},
    )
    return StaticPart(part, tensors)


def _require_lifetimes(problem: Problem) -> None:
    if problem.safety is not Safety.LIFETIMES:
        raise InstanceError(
            f"field dynamic: the static part is known where lifetimes decide safety, found "
            f"dynamic tensors in a problem where {problem.safety.value} decide"
        )


def _require_static_chains(problem: Problem, dynamic: BoolColumn) -> None:
    for index, chain in enumerate(problem.contiguous):
        for tensor in chain:
            if dynamic[tensor]:
                raise InstanceError(
                    f"field contiguous, chain {index}: tensors whose place is planned are needed, "
                    f"found {problem.describe(tensor)}, which is dynamic"
                )
