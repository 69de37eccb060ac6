"""Linear layers whose weights have 4 bits, as QLoRA trains beside: bitsandbytes' ``Linear4bit``.

Note: what a layer holds and requests
-------------------------------------
Approach. Two weights share a byte. A scale of 8 bits is kept for each block of weights, and a scale
in float32 for each block of scales (``bnb_4bit_use_double_quant``, which trainers set). Both passes
write the scales down in float32 and then the weights in the dtype of the input, use them and
let them go; nothing of it is saved for the backward pass. The result is copied once, as peft does.
The sizes are those of ``bitsandbytes.nn.Linear4bit`` 0.44 and later.

Limits. The layer computes zeros. bitsandbytes' kernels for few tokens write no weights down. Its
tables of 16 and of 256 values, and the offset of the scales, are left out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

BLOCK, BLOCK_OF_SCALES = 64, 256


class FourBitLinear(nn.Linear):
    """A layer whose weight is packed and is not trained."""

    def __init__(self, layer: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        device, self.blocks = layer.weight.device, -(-layer.weight.numel() // BLOCK)
        packed = torch.zeros(-(-layer.weight.numel() // 2), 1, dtype=torch.uint8, device=device)
        self.weight = nn.Parameter(packed, requires_grad=False)
        scales = torch.zeros(self.blocks, dtype=torch.uint8, device=device)
        self.register_buffer("scales", scales)
        outer = torch.zeros(-(-self.blocks // BLOCK_OF_SCALES), device=device)
        self.register_buffer("scales_of_scales", outer)
        self.bias = layer.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """Return zeros of the shape of a layer's result."""
        multiply: Any = _Product.apply
        result: Tensor = multiply(inputs, self)
        return (result if self.bias is None else result + self.bias).clone()

    def unpacked(self, dtype: torch.dtype) -> Tensor:
        """Write the weights down."""
        read = self.weight.new_zeros(self.blocks, dtype=torch.float32)
        scales = read + 1  # the offset
        del read
        shape = (self.out_features, self.in_features)
        weights = scales.new_zeros(shape, dtype=dtype)
        del scales
        return weights


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, inputs: Tensor, layer: FourBitLinear) -> Tensor:
        context.layer = layer
        return functional.linear(inputs, layer.unpacked(inputs.dtype))

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return gradient @ context.layer.unpacked(gradient.dtype), None


def pack_linear_layers(module: nn.Module, but: nn.Module | None) -> None:
    """Replace all linear layers of a model but the one that makes its output."""
    found = [
        (parent, name, layer)
        for parent in module.modules()
        for name, layer in parent.named_children()
        if type(layer) is nn.Linear and layer is not but
    ]
    for parent, name, layer in found:
        setattr(parent, name, FourBitLinear(layer))
