"""Keeps a step within a memory limit: what is kept, and what is computed again, at least cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planners.late_exports import late_exports

if TYPE_CHECKING:
    from planners.budget.devices import DEVICES, DeviceRates, device_rates
    from planners.budget.forward_choice import (
        ForwardChoice,
        answer_problem,
        forward_choice_of,
    )
    from planners.budget.limit_frontier import FrontierPoint, choose_planners, frontier
    from planners.budget.limit_planner import (
        LimitAnswer,
        LimitPlanner,
        LimitQuestion,
        UnsupportedStepError,
        register,
    )
    from planners.budget.limit_result import LimitResult, run_under_limit
    from planners.budget.repeatable_step import RepeatableStep, repeated_problem
    from planners.budget.staged_relaxation import StagedBound, least_limit, staged_bound
else:
    __getattr__ = late_exports(
        __name__,
        {
            "DEVICES": "devices", "DeviceRates": "devices", "ForwardChoice": "forward_choice",
            "FrontierPoint": "limit_frontier",
            "LimitAnswer": "limit_planner", "LimitPlanner": "limit_planner",
            "LimitQuestion": "limit_planner", "LimitResult": "limit_result",
            "RepeatableStep": "repeatable_step", "StagedBound": "staged_relaxation",
            "UnsupportedStepError": "limit_planner", "choose_planners": "limit_frontier",
            "answer_problem": "forward_choice", "device_rates": "devices",
            "forward_choice_of": "forward_choice", "frontier": "limit_frontier",
            "least_limit": "staged_relaxation", "register": "limit_planner",
            "repeated_problem": "repeatable_step", "run_under_limit": "limit_result",
            "staged_bound": "staged_relaxation",
        },
    )  # fmt: skip


__all__ = [
    "DEVICES", "DeviceRates", "ForwardChoice", "FrontierPoint", "LimitAnswer", "LimitPlanner",
    "LimitQuestion", "LimitResult", "RepeatableStep", "StagedBound", "UnsupportedStepError",
    "answer_problem", "choose_planners", "device_rates", "forward_choice_of", "frontier",
    "least_limit", "register", "repeated_problem", "run_under_limit", "staged_bound",
]  # fmt: skip
