"""A two-stage detector of objects in images of random sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import ResNetConfig, ResNetModel

from evaluation.programs.language_models import descend, on_device
from gpu_runtime.training.scene import Scene

IMAGES, CLASSES = 6, 91
LEAST_SIDE, MOST_SIDE, SIDE_STEP = 640, 1088, 32
MOST_BOXES = 24
PROPOSALS, CROP = 1000, 7
# Overlap with a box from which a place or a proposal stands for the box.
OVERLAP = 0.3


class Detector(nn.Module):
    """Scores places of the image, and looks again at crops of the best ones."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        tiny: dict[str, Any] = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
        config: Any = ResNetConfig(**(tiny if scene.is_tiny else {}))
        width, hidden = config.hidden_sizes[-1], scene.wide(1024, 16)
        self.proposals = scene.wide(PROPOSALS, 8)
        self.backbone: Any = on_device(scene, ResNetModel, config)
        with torch.device(scene.device):
            self.narrow = nn.Conv2d(width, scene.wide(256, 8), 1)
            channels = self.narrow.out_channels
            self.places = nn.Conv2d(channels, 5, 3, padding=1)
            self.head = nn.Sequential(
                nn.Linear(channels * CROP * CROP, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES)
            )

    def forward(self, pictures: Tensor, boxes: list[Tensor], kinds: list[Tensor]) -> Tensor:
        """Return the loss; boxes have corners in shares of the image."""
        features = self.narrow(self.backbone(pictures).last_hidden_state)
        said = self.places(features).float().flatten(2).transpose(1, 2)
        centers = _centers(features)
        loss = said.new_zeros(())
        for number, (its, kind) in enumerate(zip(boxes, kinds, strict=True)):
            found = _corners(centers, said[number, :, 1:])
            overlap, nearest = _overlaps(found.detach(), its).max(1)
            is_object = overlap > OVERLAP
            scores = said[number, :, 0]
            loss = loss + functional.binary_cross_entropy_with_logits(scores, is_object.float())
            # As many places as overlap: their number is of the moment.
            loss = loss + (found[is_object] - its[nearest[is_object]]).abs().sum() / len(its)
            best = scores.topk(min(self.proposals, len(scores))).indices
            loss = loss + self._classes(features[number], found[best].detach(), its, kind)
        mean: Tensor = loss / len(boxes)
        return mean

    def _classes(self, features: Tensor, found: Tensor, boxes: Tensor, kinds: Tensor) -> Tensor:
        overlap, nearest = _overlaps(found, boxes).max(1)
        is_object = overlap > OVERLAP
        # One background for each object, and at least one.
        background = (~is_object).nonzero()[:, 0][: 1 + int(is_object.sum())]
        chosen = torch.cat([is_object.nonzero()[:, 0], background])
        target = torch.where(is_object[chosen], kinds[nearest[chosen]], 0)
        return functional.cross_entropy(self.head(_crops(features, found[chosen])).float(), target)


def detect(scene: Scene) -> nn.Module:
    """Train on batches whose images, and the number of whose boxes, are drawn anew."""
    model = Detector(scene)
    optimizer = torch.optim.SGD(model.parameters(), 0.005, momentum=0.9)
    batch = scene.batch(IMAGES)
    for _ in scene.rounds:
        height, width = (scene.wide(_side(scene), 32 + 8 * scene.choice(4)) for _ in range(2))
        pictures = scene.normal(batch, 3, height, width)
        boxes = [_boxes(scene, 1 + scene.choice(MOST_BOXES)) for _ in range(batch)]
        kinds = [1 + scene.tokens(1, len(its), CLASSES - 1)[0, : len(its)] for its in boxes]
        with scene.step():
            with scene.autocast():
                loss = model(pictures, boxes, kinds)
            descend(scene, optimizer, loss)
    return model


def _side(scene: Scene) -> int:
    return LEAST_SIDE + SIDE_STEP * scene.choice(1 + (MOST_SIDE - LEAST_SIDE) // SIDE_STEP)


def _boxes(scene: Scene, count: int) -> Tensor:
    """Return corners of boxes, (count, 4), in shares of the image."""
    middle, size = scene.normal(2, count, 2).sigmoid()
    return torch.cat([middle - size / 4, middle + size / 4], 1).clamp(0, 1)


def _centers(features: Tensor) -> Tensor:
    height, width = features.shape[-2:]
    down, across = (torch.arange(side, device=features.device) for side in (height, width))
    grid = torch.meshgrid((down + 0.5) / height, (across + 0.5) / width, indexing="ij")
    return torch.stack(grid[::-1], -1).reshape(-1, 2)


def _corners(centers: Tensor, said: Tensor) -> Tensor:
    middle, size = centers + 0.1 * said[:, :2].tanh(), said[:, 2:].sigmoid()
    return torch.cat([middle - size / 4, middle + size / 4], 1).clamp(0, 1)


def _overlaps(ones: Tensor, others: Tensor) -> Tensor:
    """Return the intersection over the union of each pair, (ones, others)."""
    least = torch.maximum(ones[:, None, :2], others[None, :, :2])
    most = torch.minimum(ones[:, None, 2:], others[None, :, 2:])
    both = (most - least).clamp(min=0).prod(-1)
    areas = [(its[:, 2:] - its[:, :2]).prod(-1) for its in (ones, others)]
    return both / (areas[0][:, None] + areas[1][None] - both).clamp(min=1e-6)


def _crops(features: Tensor, corners: Tensor) -> Tensor:
    """Return features within corners, resampled to CROP x CROP and flattened."""
    steps = (torch.arange(CROP, device=features.device) + 0.5) / CROP
    at = corners[:, None, :2] + steps[:, None] * (corners[:, 2:] - corners[:, :2])[:, None]
    across = at[:, None, :, 0].expand(-1, CROP, -1)
    down = at[:, :, None, 1].expand(-1, -1, CROP)
    grid = 2 * torch.stack([across, down], -1) - 1
    pictures = features.float()[None].expand(len(corners), -1, -1, -1)
    return functional.grid_sample(pictures, grid, align_corners=False).flatten(1)
