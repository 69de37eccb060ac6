"""PanGu-alpha at three sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instances.extract.models.model_registry import register
from instances.extract.models.tokens import require_positions, token_batch
from instances.extract.step_settings import SHARDED, StepSettings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

# The published network is trained with recomputation.
RECOMPUTED = ("layers",)


def _sharded(batch: int, layers: int, precision: str = "float32") -> StepSettings:
    """Parameters sharded as the published networks are: one rank alone could not hold them.

    The batch is such that the lifetime bound comes near the paper's.
    """
    return StepSettings(
        batch, 1024, layers=layers, checkpointing=True, precision=precision, parallel=SHARDED
    )


@register(
    "pangu-2.6b",
    "PanGu-alpha (2560 wide, 40 heads), parameters in float32, computed in bfloat16",
    _sharded(batch=25, layers=32),
    RECOMPUTED,
)
def pangu_2_6b(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build PanGu-alpha with 2.6 billion parameters."""
    return _build(settings, width=2560, heads=40)


@register(
    "pangu-8b",
    "PanGu-alpha (4096 wide, 32 heads), computed in bfloat16",
    _sharded(batch=18, layers=40, precision="bfloat16"),
    RECOMPUTED,
)
def pangu_8b(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build PanGu-alpha with 8 billion parameters."""
    return _build(settings, width=4096, heads=32)


@register(
    "pangu-13b",
    "PanGu-alpha (5120 wide, 40 heads), computed in bfloat16",
    _sharded(batch=24, layers=40, precision="bfloat16"),
    RECOMPUTED,
)
def pangu_13b(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build PanGu-alpha with 13 billion parameters."""
    return _build(settings, width=5120, heads=40)


def _build(settings: StepSettings, width: int, heads: int) -> tuple[Module, dict[str, Tensor]]:
    from instances.extract.models.networks.pangu_alpha import Pangu, PanguShape

    shape = PanguShape(settings.layers or 1, width, heads)
    require_positions(settings, shape.positions)
    return Pangu(shape), token_batch(settings, "input_ids")
