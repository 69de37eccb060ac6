"""Keeps a step within a memory limit: what is kept, and what is computed again, at least cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planners.late_exports import late_exports

if TYPE_CHECKING:
    from planners.recompute.devices import DEVICES, DeviceRates, device_rates
    from planners.recompute.forward_choice import (
        ForwardChoice,
        answer_problem,
        forward_choice_of,
    )
    from planners.recompute.limit_frontier import FrontierPoint, choose_planners, frontier
    from planners.recompute.limit_planner import (
        LimitAnswer,
        LimitPlanner,
        LimitQuestion,
        UnsupportedStepError,
        register,
    )
    from planners.recompute.limit_result import LimitResult, run_under_limit
    from planners.recompute.repeatable_step import RepeatableStep, repeated_problem
    from planners.recompute.staged_relaxation import StagedBound, least_limit, staged_bound
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
