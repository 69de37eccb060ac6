"""Planned memory where other people's loops train: callbacks that say where a step begins and ends.

Each is imported when it is asked for, and its library with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_runtime.integrations.lightning_callback import PlannedLightningCallback
    from gpu_runtime.integrations.trainer_callback import PlannedTrainerCallback

__all__ = ["PlannedLightningCallback", "PlannedTrainerCallback"]


def __getattr__(name: str) -> Any:
    if name == "PlannedLightningCallback":
        from gpu_runtime.integrations.lightning_callback import PlannedLightningCallback

        return PlannedLightningCallback
    if name == "PlannedTrainerCallback":
        from gpu_runtime.integrations.trainer_callback import PlannedTrainerCallback

        return PlannedTrainerCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
