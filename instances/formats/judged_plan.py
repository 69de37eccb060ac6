"""Plans that are written to a file are judged first."""

from __future__ import annotations

from planners.errors import InvalidPlanError
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.referee.fast import find_violation_fast


def require_valid_plan(problem: Problem, plan: Plan) -> None:
    """Refuse a plan that breaks a constraint of its problem; raises ``InvalidPlanError``.

    The fast referee judges, for a file may hold hundreds of thousands of tensors.
    """
    violation = find_violation_fast(problem, plan)
    if violation is not None:
        raise InvalidPlanError(violation)
