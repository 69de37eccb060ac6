"""MobileNetV2 in quantisation-aware training."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from instances.extract.models.classifiers import mobilenet_v2
from instances.extract.models.model_registry import register
from instances.extract.step_settings import StepSettings

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


@register(
    "mobilenet-v2-quant",
    f"{mobilenet_v2.source}, weights and activations rounded to 8 bits",
    replace(mobilenet_v2.defaults, batch=157),
)
def mobilenet_v2_quant(settings: StepSettings) -> tuple[Module, dict[str, Tensor]]:
    """Build MobileNetV2 with simulated quantisation."""
    from instances.extract.models.networks.quantised_mobilenet_v2 import quantise

    network, batch = mobilenet_v2.build(settings)
    quantise(network)
    return network, batch
