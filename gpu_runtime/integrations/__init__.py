"""Planned memory in the loops of other libraries: callbacks that bracket the training steps.

Each callback and its library are imported when the callback is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_runtime.integrations.lightning_callback import PlannedLightningCallback
    from gpu_runtime.integrations.trainer_callback import PlannedTrainerCallback

__all__ = ["PlannedLightningCallback", "PlannedTrainerCallback"]


_HOMES = {
    "PlannedLightningCallback": "lightning_callback", "PlannedTrainerCallback": "trainer_callback",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
