"""Detectors of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instances.extract.models.images import require_multiple
from instances.extract.models.model_registry import register
from instances.extract.step_settings import StepSettings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

CLASSES = 80
OBJECTS = 50


@register(
    "yolov3",
    "YOLOv3 (Darknet-53, 80 classes, 50 objects an image)",
    StepSettings(batch=7, seq=None, image=416, clip_norm=0.0),
)
def yolov3(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build YOLOv3 and, for training, the targets of its three scales."""
    import torch

    from instances.extract.models.networks.yolov3 import ANCHORS, STRIDES, Yolov3

    side = require_multiple(settings, STRIDES[0])
    batch = {"images": torch.zeros(settings.batch, 3, side, side)}
    if settings.training:
        batch["boxes"] = torch.zeros(settings.batch, OBJECTS, 4)
        for name, stride in zip(("coarse", "middle", "fine"), STRIDES, strict=True):
            cells = side // stride
            batch[name] = torch.zeros(settings.batch, cells, cells, len(ANCHORS[0]), 5 + CLASSES)
    return Yolov3(CLASSES), batch
