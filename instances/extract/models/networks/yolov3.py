"""YOLOv3: Darknet-53, three scales of predictions, and the loss over them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from instances.extract.models.networks.output import Output

# Pixels, at 416 x 416, of the three boxes that each scale starts from; coarse to fine.
ANCHORS = (
    ((116, 90), (156, 198), (373, 326)),
    ((30, 61), (62, 45), (59, 119)),
    ((10, 13), (16, 30), (33, 23)),
)
STRIDES = (32, 16, 8)
BLOCKS = (1, 2, 8, 8, 4)

# Predictions that overlap an object more than this are not told to be background.
IGNORED_OVERLAP = 0.5


class ConvNorm(nn.Module):
    """Convolution, batch norm, leaky rectifier."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activations, (batch, outputs, height, width)."""
        return functional.leaky_relu(self.norm(self.conv(input)), 0.1)


class Residual(nn.Module):
    """A narrow and a wide convolution, added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow = ConvNorm(channels, channels // 2, 1)
        self.wide = ConvNorm(channels // 2, channels, 3)

    def forward(self, input: Tensor) -> Tensor:
        """Return the sum, of the input's shape."""
        result: Tensor = input + self.wide(self.narrow(input))
        return result


class Darknet(nn.Module):
    """Darknet-53 without its classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNorm(3, 32, 3)
        channels = [32 << level for level in range(len(BLOCKS) + 1)]
        self.stages = nn.ModuleList(
            nn.Sequential(
                ConvNorm(channels[level], channels[level + 1], 3, stride=2),
                *(Residual(channels[level + 1]) for _ in range(blocks)),
            )
            for level, blocks in enumerate(BLOCKS)
        )

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the features of the last three stages, coarse to fine."""
        hidden = self.stem(images)
        features = []
        for stage in self.stages:
            hidden = stage(hidden)
            features.append(hidden)
        return features[:1:-1]


class Scale(nn.Module):
    """Features of one scale to predictions."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.neck = nn.Sequential(
            ConvNorm(inputs, width, 1),
            ConvNorm(width, 2 * width, 3),
            ConvNorm(2 * width, width, 1),
            ConvNorm(width, 2 * width, 3),
            ConvNorm(2 * width, width, 1),
        )
        self.widen = ConvNorm(width, 2 * width, 3)
        self.predict = nn.Conv2d(2 * width, outputs, 1)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return the input of the next scale, and the predictions."""
        hidden = self.neck(features)
        return hidden, self.predict(self.widen(hidden))


class Yolov3(nn.Module):
    """The detector."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.numbers = 5 + classes
        self.backbone = Darknet()
        outputs = len(ANCHORS[0]) * self.numbers
        self.scales = nn.ModuleList(
            [Scale(1024, 512, outputs), Scale(768, 256, outputs), Scale(384, 128, outputs)]
        )
        self.laterals = nn.ModuleList([ConvNorm(512, 256, 1), ConvNorm(256, 128, 1)])
        self.anchors: Tensor
        self.register_buffer("anchors", torch.tensor(ANCHORS, dtype=torch.get_default_dtype()))

    def forward(
        self,
        images: Tensor,
        boxes: Tensor | None = None,
        coarse: Tensor | None = None,
        middle: Tensor | None = None,
        fine: Tensor | None = None,
    ) -> Output:
        """Detect objects in images (batch, 3, height, width).

        Boxes are centre, width and height of every object in pixels, (batch, objects, 4). What each
        cell and anchor of a scale should predict is (batch, rows, columns, 3, 5 + classes): centre
        within the cell, logarithms of width and height, whether there is an object, and which.
        """
        features = self.backbone(images)
        predictions = []
        hidden, raw = self.scales[0](features[0])
        predictions.append(self._by_cell(raw))
        for scale, lateral, finer in zip(self.scales[1:], self.laterals, features[1:], strict=True):
            upsampled = functional.interpolate(lateral(hidden), scale_factor=2.0, mode="nearest")
            hidden, raw = scale(torch.cat([upsampled, finer], dim=1))
            predictions.append(self._by_cell(raw))
        if boxes is None or coarse is None or middle is None or fine is None:
            return Output(outputs=tuple(predictions))
        losses = [
            scale_loss(prediction, target, boxes, anchors, stride)
            for prediction, target, anchors, stride in zip(
                predictions, (coarse, middle, fine), self.anchors, STRIDES, strict=True
            )
        ]
        return Output(torch.stack(losses).sum())

    def _by_cell(self, raw: Tensor) -> Tensor:
        batch, _, rows, columns = raw.shape
        return raw.view(batch, -1, self.numbers, rows, columns).permute(0, 3, 4, 1, 2).contiguous()


def scale_loss(
    prediction: Tensor, target: Tensor, boxes: Tensor, anchors: Tensor, stride: int
) -> Tensor:
    """Return the loss of one scale: centres, sizes, presence, classes, divided by the batch.

    Prediction and target are (batch, rows, columns, anchors, 5 + classes), boxes
    (batch, objects, 4), anchors width and height in pixels, and the stride the pixels of a cell.
    """
    present = target[..., 4:5]
    background = (1 - present) * _far_from_all(prediction, boxes, anchors, stride)
    cross_entropy = functional.binary_cross_entropy_with_logits
    centre = cross_entropy(prediction[..., :2], target[..., :2], reduction="none") * present
    size = (prediction[..., 2:4] - target[..., 2:4]).square() * present * 0.5
    presence = cross_entropy(prediction[..., 4:5], present, reduction="none")
    kind = cross_entropy(prediction[..., 5:], target[..., 5:], reduction="none") * present
    presence = presence * (present + background)
    return (centre.sum() + size.sum() + presence.sum() + kind.sum()) / prediction.shape[0]


@torch.no_grad()
def _far_from_all(prediction: Tensor, boxes: Tensor, anchors: Tensor, stride: int) -> Tensor:
    rows, columns = prediction.shape[1:3]
    row = torch.arange(rows, dtype=prediction.dtype, device=prediction.device)[:, None].expand(
        rows, columns
    )
    column = torch.arange(columns, dtype=prediction.dtype, device=prediction.device).expand(
        rows, columns
    )
    cell = torch.stack([column, row], dim=-1)[:, :, None]
    centre = (prediction[..., :2].sigmoid() + cell) * stride
    size = prediction[..., 2:4].exp() * anchors
    overlap = _overlaps(centre[..., None, :], size[..., None, :], boxes[:, None, None, None])
    return (overlap.amax(-1, keepdim=True) < IGNORED_OVERLAP).to(prediction.dtype)


def _overlaps(centre: Tensor, size: Tensor, boxes: Tensor) -> Tensor:
    """Return intersection over union of predictions with every object."""
    other_centre, other_size = boxes[..., :2], boxes[..., 2:]
    low = torch.maximum(centre - size / 2, other_centre - other_size / 2)
    high = torch.minimum(centre + size / 2, other_centre + other_size / 2)
    shared = (high - low).clamp(min=0).prod(-1)
    return shared / (size.prod(-1) + other_size.prod(-1) - shared)
