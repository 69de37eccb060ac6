"""Planned memory in the loops of other libraries, and a solver for PyTorch's compiler.

Each is imported, with its library, when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_runtime.integrations.lightning_callback import PlannedLightningCallback
    from gpu_runtime.integrations.memory_budget_solver import ExactMemoryBudgetSolver
    from gpu_runtime.integrations.trainer_callback import PlannedTrainerCallback

__all__ = ["ExactMemoryBudgetSolver", "PlannedLightningCallback", "PlannedTrainerCallback"]


_HOMES = {
    "ExactMemoryBudgetSolver": "memory_budget_solver",
    "PlannedLightningCallback": "lightning_callback",
    "PlannedTrainerCallback": "trainer_callback",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
