"""MobileNetV2, trained for eight bits."""

from __future__ import annotations

from torch import nn
from transformers.models.mobilenet_v2.modeling_mobilenet_v2 import (
    MobileNetV2ConvLayer,
    MobileNetV2InvertedResidual,
)

from instances.extract.models.networks.simulated_quantisation import (
    FoldedConvolution,
    QuantisedActivation,
    QuantisedLinear,
)


def quantise(network: nn.Module) -> None:
    """Round every weight, and the result of every convolution, sum and linear layer, in place."""
    # The inner modules first, while their names are those of the plain network.
    for name, module in reversed(list(network.named_modules())):
        quantised = _quantised(module)
        if quantised is not module:
            network.set_submodule(name, quantised)


def _quantised(module: nn.Module) -> nn.Module:
    if isinstance(module, MobileNetV2ConvLayer):
        layers = [FoldedConvolution(module.convolution, module.normalization), module.activation]
        return nn.Sequential(*filter(None, layers), QuantisedActivation())
    if isinstance(module, MobileNetV2InvertedResidual) and module.use_residual:
        return nn.Sequential(module, QuantisedActivation())
    return QuantisedLinear(module) if isinstance(module, nn.Linear) else module
