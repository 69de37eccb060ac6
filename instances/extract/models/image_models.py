"""Registered models of images: classifiers, a detector, face recognition."""

from __future__ import annotations

from dataclasses import replace
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


@register(
    "mobilenet-v2-quant",
    f"{mobilenet_v2.source}, weights and activations rounded to 8 bits",
    replace(mobilenet_v2.defaults, batch=157),
)
def mobilenet_v2_quant(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build MobileNetV2 with simulated quantisation."""
    from instances.extract.models.networks.simulated_quantisation import quantise

    network, batch = mobilenet_v2.build(settings)
    quantise(network)
    return network, batch


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


# Identities in the public data set MS1MV2.
IDENTITIES = 85742


@register(
    "face-recognition",
    "ResNet-100 with improved residuals, 85742 identities, softmax with a large margin",
    StepSettings(batch=128, seq=None, image=112, clip_norm=0.0),
)
def face_recognition(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build a ResNet-based net for face recognition."""
    from instances.extract.models.networks.face_recognition import FaceRecognition

    image = require_multiple(settings, 16)
    return FaceRecognition(IDENTITIES, image), image_batch(settings, "images")
