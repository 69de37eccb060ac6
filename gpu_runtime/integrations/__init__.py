"""Planned memory in the loops of other libraries: callbacks that bracket the training steps.

Each callback and its library are imported when the callback is asked for.
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
