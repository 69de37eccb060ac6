"""Batches of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instances.extract.step_settings import StepSettings
from planners.errors import InstanceError

if TYPE_CHECKING:
    from torch import Tensor


def require_multiple(settings: StepSettings, stride: int) -> int:
    """Return height and width of an image in pixels, which divide into the cells of a network."""
    if settings.image is None or settings.image % stride:
        raise InstanceError(
            f"setting image: a multiple of {stride} pixels, the stride of the model, "
            f"found {settings.image}"
        )
    return settings.image


def image_batch(settings: StepSettings, name: str = "pixel_values") -> dict[str, Tensor]:
    """Return images (batch, 3, height, width), and for training their classes, (batch,) int64.

    `name` is the model's argument for the images.
    """
    import torch

    side = settings.image or 1
    batch = {name: torch.zeros(settings.batch, 3, side, side)}
    if settings.training:
        batch["labels"] = torch.zeros(settings.batch, dtype=torch.int64)
    return batch
