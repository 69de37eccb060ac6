"""The exact planner: CP-SAT over what runs again and when, for small steps."""

from __future__ import annotations

from planners.errors import MissingDependencyError
from planners.exact.model_limits import ModelTooLargeError
from planners.exact.plan_exactly import require_package
from planners.recompute.exact_schedule import exact_schedule
from planners.recompute.limit_planner import (
    LimitAnswer,
    LimitQuestion,
    UnsupportedStepError,
    register,
)
from planners.recompute.local_search import rounded


@register(
    "cp-sat",
    summary="proves the optimum of steps with few nodes, the order of second runs included",
    source="Jain et al. 2020; Bartan et al. 2023",
)
def cp_sat(question: LimitQuestion) -> LimitAnswer:
    """Search with CP-SAT, from the rounded relaxation."""
    if question.step.may_send:
        raise UnsupportedStepError("tensors may be sent away, which the model does not know")
    try:
        require_package("ortools.sat.python", "OR-Tools", "pip install ortools")
        return exact_schedule(question.step, question.limit, question.budget, rounded(question))
    except (MissingDependencyError, ModelTooLargeError) as error:
        raise UnsupportedStepError(str(error)) from None
