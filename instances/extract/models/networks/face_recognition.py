"""Face recognition: a ResNet with improved residuals and a softmax with a large margin."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from instances.extract.models.networks.output import Output

# Residuals of each stage: a hundred layers.
STAGES = (3, 13, 30, 3)
WIDTHS = (64, 128, 256, 512)
EMBEDDING = 512

# The published margin: the cosine of the right class must be larger by so much.
MARGIN = 0.35
SCALE = 64.0


class ImprovedResidual(nn.Module):
    """Norm, convolution, norm, rectifier, convolution, norm; added to their input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.PReLU(outputs),
            nn.Conv2d(outputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut.append(nn.Conv2d(inputs, outputs, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(outputs))

    def forward(self, input: Tensor) -> Tensor:
        """Return the sum, (batch, outputs, height / stride, width / stride)."""
        result: Tensor = self.residual(input) + self.shortcut(input)
        return result


class FaceRecognition(nn.Module):
    """A ResNet-100 for faces of 112 x 112 pixels with its classifier."""

    def __init__(self, identities: int, image: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, WIDTHS[0], 3, 1, 1, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.PReLU(64)
        )
        channels = [WIDTHS[0], *WIDTHS]
        self.stages = nn.Sequential(
            *(
                ImprovedResidual(
                    channels[stage if block == 0 else stage + 1],
                    channels[stage + 1],
                    2 if block == 0 else 1,
                )
                for stage, blocks in enumerate(STAGES)
                for block in range(blocks)
            )
        )
        side = image // 2 ** len(STAGES)
        self.embed = nn.Sequential(
            nn.BatchNorm2d(WIDTHS[-1]),
            nn.Dropout(0.4),
            nn.Flatten(),
            nn.Linear(WIDTHS[-1] * side * side, EMBEDDING),
            nn.BatchNorm1d(EMBEDDING),
        )
        self.identities = nn.Parameter(torch.empty(identities, EMBEDDING))
        nn.init.normal_(self.identities, std=0.01)

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Output:
        embedding = self.embed(self.stages(self.stem(images)))
        if labels is None:
            return Output(outputs=(embedding,))
        directions = functional.normalize(self.identities)
        cosine = functional.linear(functional.normalize(embedding), directions)
        right = torch.zeros_like(cosine).scatter_(1, labels[:, None], MARGIN)
        return Output(functional.cross_entropy((cosine - right) * SCALE, labels))
