"""Keeps a step within a memory limit: what is kept, and what is computed again, at least cost."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planners.budget.devices import DEVICES, DeviceRates, device_rates
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
    _MODULE_OF = {
        "devices": ("DEVICES", "DeviceRates", "device_rates"),
        "limit_frontier": ("FrontierPoint", "choose_planners", "frontier"),
        "limit_planner": (
            "LimitAnswer", "LimitPlanner", "LimitQuestion", "UnsupportedStepError", "register",
        ),
        "limit_result": ("LimitResult", "run_under_limit"),
        "repeatable_step": ("RepeatableStep", "repeated_problem"),
        "staged_relaxation": ("StagedBound", "least_limit", "staged_bound"),
    }  # fmt: skip

    def __getattr__(name: str) -> Any:
        """Import an exported name at its first use, because the import is slow."""
        for module, names in _MODULE_OF.items():
            if name in names:
                return getattr(import_module(f"planners.budget.{module}"), name)
        raise AttributeError(f"module 'planners.budget' has no attribute {name!r}")


__all__ = [
    "DEVICES", "DeviceRates", "FrontierPoint", "LimitAnswer", "LimitPlanner", "LimitQuestion",
    "LimitResult", "RepeatableStep", "StagedBound", "UnsupportedStepError", "choose_planners",
    "device_rates", "frontier", "least_limit", "register", "repeated_problem", "run_under_limit",
    "staged_bound",
]  # fmt: skip
