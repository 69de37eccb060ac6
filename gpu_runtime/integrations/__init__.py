"""Planned memory in the loops of other libraries, and a solver for PyTorch's compiler.

Each is imported, with its library, when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planners.late_exports import late_exports

if TYPE_CHECKING:
    from gpu_runtime.integrations.lightning_callback import PlannedLightningCallback
    from gpu_runtime.integrations.memory_budget_solver import ExactMemoryBudgetSolver
    from gpu_runtime.integrations.trainer_callback import PlannedTrainerCallback

__all__ = ["ExactMemoryBudgetSolver", "PlannedLightningCallback", "PlannedTrainerCallback"]


__getattr__ = late_exports(
    __name__,
    {
        "ExactMemoryBudgetSolver": "memory_budget_solver",
        "PlannedLightningCallback": "lightning_callback",
        "PlannedTrainerCallback": "trainer_callback",
    },
)
