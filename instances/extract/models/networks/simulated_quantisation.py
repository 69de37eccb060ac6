"""Simulated quantisation: tensors take the values that eight bits could hold, and stay floats.

As MindSpore's quantisation-aware training has it: weights channel by channel and symmetric about
zero, with the range that they have now; activations as a whole, with a moving average of the
ranges they had. The gradient goes straight through what lay inside the range.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.models.mobilenet_v2.modeling_mobilenet_v2 import (
    MobileNetV2ConvLayer,
    MobileNetV2InvertedResidual,
)

# The range of eight bits.
LOWEST, HIGHEST = -128, 127

# Range before the first observation.
INITIAL_RANGE = 6.0

# Decay of the moving average that gives an activation's range.
DECAY = 0.999

# Step of a range with a single value, whose width of 0 could not be a divisor.
SMALLEST_STEP = torch.finfo(torch.float32).eps


class ObservedRange(nn.Module):
    """Smallest and largest value seen while training, kept in buffers, with a range per channel.

    `decay` is the share of the former range that stays at each step.
    """

    low: Tensor
    high: Tensor

    def __init__(self, channels: int, decay: float) -> None:
        super().__init__()
        self.decay = decay
        # Kernels of quantisation take scales in float32, whatever they round.
        for name, value in (("low", -INITIAL_RANGE), ("high", INITIAL_RANGE)):
            self.register_buffer(name, torch.full((channels,), value, dtype=torch.float32))

    def observe(self, low: Tensor, high: Tensor) -> None:
        """Move the range towards that of a tensor; in evaluation mode it stays."""
        if self.training:
            self.low.lerp_(low.to(self.low.dtype), 1 - self.decay)
            self.high.lerp_(high.to(self.high.dtype), 1 - self.decay)


def step_width(low: Tensor, high: Tensor) -> Tensor:
    """Divide ranges into the steps of eight bits; a range of one value has small ones."""
    return ((high - low) / (HIGHEST - LOWEST)).clamp(min=SMALLEST_STEP)


class QuantisedActivation(ObservedRange):
    """Rounds an activation to the steps of its range so far."""

    def __init__(self) -> None:
        super().__init__(1, DECAY)

    def forward(self, input: Tensor) -> Tensor:
        with torch.no_grad():
            self.observe(*torch.aminmax(input))
            # Zero itself is exact: padding and rectifiers put it everywhere.
            low, high = self.low.clamp(max=0), self.high.clamp(min=0)
            scale = step_width(low, high)
            zero_point = (LOWEST - low / scale).round().clamp(LOWEST, HIGHEST).to(torch.int32)
        return torch.fake_quantize_per_tensor_affine(input, scale, zero_point, LOWEST, HIGHEST)


class QuantisedWeight(ObservedRange):
    """Rounds each output channel of a weight to the steps of its own range."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, decay=0.0)

    def forward(self, weight: Tensor) -> Tensor:
        with torch.no_grad():
            self.observe(*torch.aminmax(weight.flatten(1), dim=1))
            largest = torch.maximum(-self.low, self.high)
            scale = step_width(-largest, largest)
            zero_point = torch.zeros_like(scale, dtype=torch.int32)
        return torch.fake_quantize_per_channel_affine(weight, scale, zero_point, 0, LOWEST, HIGHEST)


class FoldedConvolution(nn.Module):
    """A convolution without bias and its norm, the weight rounded as if the norm were folded in.

    A deployed model multiplies the norm's factor into the weight before it rounds the weight.
    Training does so with the running deviation, and divides the norm's input by the factor again.
    """

    def __init__(self, convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.convolution = convolution
        self.norm = norm
        self.quantised = QuantisedWeight(convolution.out_channels)

    def forward(self, input: Tensor) -> Tensor:
        convolution, norm = self.convolution, self.norm
        factor = norm.weight / torch.sqrt(norm.get_buffer("running_var") + norm.eps)
        folded = functional.conv2d(
            input,
            self.quantised(convolution.weight * factor.view(-1, 1, 1, 1)),
            stride=convolution.stride,
            padding=convolution.padding,
            dilation=convolution.dilation,
            groups=convolution.groups,
        )
        result: Tensor = norm(folded * factor.reciprocal().view(1, -1, 1, 1))
        return result


class QuantisedLinear(nn.Module):
    """A linear layer with rounded weight and result."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.quantised = QuantisedWeight(linear.out_features)
        self.result = QuantisedActivation()

    def forward(self, input: Tensor) -> Tensor:
        weight = self.quantised(self.linear.weight)
        result: Tensor = self.result(functional.linear(input, weight, self.linear.bias))
        return result


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
