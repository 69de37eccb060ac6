"""Registered models that classify images."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from instances.extract.models.model_registry import register
from instances.extract.step_settings import StepSettings
from planners.errors import InstanceError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


def require_multiple(settings: StepSettings, stride: int) -> int:
    """Return height and width of an image in pixels, which divide into the cells of a network."""
    if settings.image is None or settings.image % stride:
        raise InstanceError(
            f"setting image: a multiple of {stride} pixels, the stride of the model, "
            f"found {settings.image}"
        )
    return settings.image


def image_batch(settings: StepSettings) -> dict[str, Tensor]:
    """Return images (batch, 3, height, width), and for training their classes, (batch,) int64."""
    import torch

    side = settings.image or 1
    batch = {"pixel_values": torch.zeros(settings.batch, 3, side, side)}
    if settings.training:
        batch["labels"] = torch.zeros(settings.batch, dtype=torch.int64)
    return batch


CLASSIFICATION: MappingProxyType[str, Any] = MappingProxyType(
    {"num_labels": 1000, "problem_type": "single_label_classification"}
)


def classifier(
    settings: StepSettings, network: str, stride: int, **config: Any
) -> tuple[Module, dict[str, Tensor]]:
    """Build a classifier of transformers; `config` has what differs from its own configuration."""
    import transformers

    require_multiple(settings, stride)
    kind = getattr(transformers, network)
    return kind(kind.config_class(**CLASSIFICATION, **config)), image_batch(settings)


register(
    "resnet-50",
    "transformers.ResNetForImageClassification(ResNetConfig(1000 labels))",
    StepSettings(
        batch=32, seq=None, image=224, optimizer="sgd", clip_norm=0.0, precision="bfloat16"
    ),
)(lambda settings: classifier(settings, "ResNetForImageClassification", 32))
register(
    "mobilenet-v2",
    "transformers.MobileNetV2ForImageClassification(MobileNetV2Config(1000 labels))",
    StepSettings(batch=224, seq=None, image=224, optimizer="sgd", clip_norm=0.0),
)(lambda settings: classifier(settings, "MobileNetV2ForImageClassification", 32, tf_padding=False))
register(
    "vit-base",
    "transformers.ViTForImageClassification(ViTConfig(1000 labels))",
    StepSettings(batch=64, seq=None, image=224, layers=12),
    recomputed=("vit.layers",),
)(
    lambda settings: classifier(
        settings, "ViTForImageClassification", 16,
        image_size=settings.image, num_hidden_layers=settings.layers,
    )
)  # fmt: skip
