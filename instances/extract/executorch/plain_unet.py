"""A plain U-Net: two convolutions a level, skipped to the way up."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import Conv2d, ConvTranspose2d, MaxPool2d, Module, ModuleList, ReLU, Sequential


def _level(channels_in: int, channels_out: int) -> Sequential:
    return Sequential(
        Conv2d(channels_in, channels_out, 3, padding=1), ReLU(),
        Conv2d(channels_out, channels_out, 3, padding=1), ReLU(),
    )  # fmt: skip


class PlainUNet(Module):
    """Halves the image on each level but the first, and doubles it on the way back."""

    def __init__(self, channels: int, width: int, levels: int, classes: int) -> None:
        super().__init__()
        widths = [width << level for level in range(levels)]
        pairs = list(pairwise(widths))
        self.first = _level(channels, width)
        self.pool = MaxPool2d(2)
        self.down = ModuleList(_level(wide, wider) for wide, wider in pairs)
        self.widen = ModuleList(
            ConvTranspose2d(wider, wide, 2, stride=2) for wide, wider in reversed(pairs)
        )
        self.up = ModuleList(_level(2 * wide, wide) for wide, _ in reversed(pairs))
        self.last = Conv2d(width, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        hidden = self.first(image)
        skipped = []
        for down in self.down:
            skipped.append(hidden)
            hidden = down(self.pool(hidden))
        for widen, up in zip(self.widen, self.up, strict=True):
            hidden = up(torch.cat([skipped.pop(), widen(hidden)], dim=1))
        result: Tensor = self.last(hidden)
        return result
