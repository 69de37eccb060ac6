"""Classifiers of images: ResNet, MobileNetV2, ViT, each with the thousand classes of ImageNet."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from instances.extract.models.images import image_batch, require_multiple
from instances.extract.models.model_registry import register
from instances.extract.step_settings import StepSettings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

CLASSIFICATION: MappingProxyType[str, Any] = MappingProxyType(
    {"num_labels": 1000, "problem_type": "single_label_classification"}
)


@register(
    "resnet-50",
    "transformers.ResNetForImageClassification(ResNetConfig(1000 labels))",
    StepSettings(
        batch=32, seq=None, image=224, optimizer="sgd", clip_norm=0.0, precision="bfloat16"
    ),
)
def resnet_50(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build ResNet-50."""
    from transformers import ResNetConfig, ResNetForImageClassification

    require_multiple(settings, 32)
    config = ResNetConfig(**CLASSIFICATION)
    return ResNetForImageClassification(config), image_batch(settings)


@register(
    "mobilenet-v2",
    "transformers.MobileNetV2ForImageClassification(MobileNetV2Config(1000 labels))",
    StepSettings(batch=224, seq=None, image=224, optimizer="sgd", clip_norm=0.0),
)
def mobilenet_v2(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build MobileNetV2."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    require_multiple(settings, 32)
    config = MobileNetV2Config(tf_padding=False, **CLASSIFICATION)
    return MobileNetV2ForImageClassification(config), image_batch(settings)


@register(
    "vit-base",
    "transformers.ViTForImageClassification(ViTConfig(1000 labels))",
    StepSettings(batch=64, seq=None, image=224, layers=12),
    recomputed=("vit.layers",),
)
def vit_base(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build ViT-base with patches of 16 x 16 pixels."""
    from transformers import ViTConfig, ViTForImageClassification

    image = require_multiple(settings, 16)
    shape: dict[str, Any] = {"image_size": image, "num_hidden_layers": settings.layers}
    config = ViTConfig(**shape, **CLASSIFICATION)
    return ViTForImageClassification(config), image_batch(settings)
