"""Networks of images: a ViT, a ResNet, a ConvNeXt, and a generator with its discriminator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

from evaluation.programs.language_models import descend, on_device
from gpu_runtime.training.scene import Scene

CLASSES = 1000
LABELS: dict[str, Any] = {"num_labels": CLASSES}
SIDE = 224
TINY_SIDE = 32
# Of the images of a batch, at random.
SIDES = (192, 224, 256, 288)
# Length of the random vector from which the generator makes a picture.
LATENT = 128


def vit(scene: Scene) -> nn.Module:
    """Train a ViT-base."""
    config = ViTConfig(
        image_size=scene.wide(SIDE, TINY_SIDE),
        hidden_size=scene.wide(768, 32),
        intermediate_size=scene.wide(3072, 64),
        num_hidden_layers=scene.layers(12),
        num_attention_heads=scene.wide(12, 2),
        **LABELS,
    )
    model = on_device(scene, ViTForImageClassification, config)
    return _classify(scene, model, scene.adamw(model.parameters()), 64)


def resnet_50(scene: Scene) -> nn.Module:
    """Train a ResNet-50 whose images have their channels last."""
    tiny: dict[str, Any] = {
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 1],
    }
    config = ResNetConfig(**LABELS, **(tiny if scene.is_tiny else {}))
    model: Any = on_device(scene, ResNetForImageClassification, config)
    model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    return _classify(scene, model, optimizer, 128)


def convnext_prefetched(scene: Scene) -> nn.Module:
    """Train a ConvNeXt on images of four resolutions, copied on a stream of their own."""
    tiny: dict[str, Any] = {"num_stages": 2, "hidden_sizes": [8, 16], "depths": [1, 1]}
    config = ConvNextConfig(**LABELS, **(tiny if scene.is_tiny else {}))
    model: nn.Module = on_device(scene, ConvNextForImageClassification, config)
    optimizer = scene.adamw(model.parameters())
    batch = scene.batch(48)
    hosts = [
        scene.normal(batch, 3, side, side).cpu()
        for side in (scene.wide(side, side // 6) for side in SIDES)
    ]
    made: Any = torch.cuda.Stream
    stream = made(scene.device) if scene.is_cuda else None

    def fetch() -> Tensor:
        host = hosts[scene.choice(len(hosts))]
        if stream is None:
            return host
        with torch.cuda.stream(stream):
            return scene.to_device(host)

    following = fetch()
    for _ in scene.rounds:
        labels = scene.tokens(batch, 1, CLASSES)[:, 0]
        with scene.step():
            pictures = following
            if stream is not None:
                torch.cuda.current_stream().wait_stream(stream)
                pictures.record_stream(torch.cuda.current_stream())
            following = fetch()
            with scene.autocast():
                loss = model(pixel_values=pictures, labels=labels).loss
            descend(scene, optimizer, loss)
    return model


def adversarial(scene: Scene) -> nn.Module:
    """Train a discriminator and then a generator in each step."""
    channels = scene.wide(96, 4)
    with torch.device(scene.device):
        makes, tells = _generator(channels), _discriminator(channels)
    of_maker = torch.optim.Adam(makes.parameters(), 2e-4, betas=(0.5, 0.999))
    of_teller = torch.optim.Adam(tells.parameters(), 2e-4, betas=(0.5, 0.999))
    batch = scene.batch(1024)
    for _ in scene.rounds:
        with scene.step():
            # A host draws so many numbers more slowly than a GPU trains on them.
            others = torch.randn(batch, 3, 64, 64, device=scene.device)
            latent = torch.randn(batch, LATENT, 1, 1, device=scene.device)
            with scene.autocast():
                made = makes(latent)
                said_of_others, said_of_made = tells(others), tells(made.detach())
                loss = _loss(said_of_others, 1.0) + _loss(said_of_made, 0.0)
            descend(scene, of_teller, loss)
            with scene.autocast():
                loss = _loss(tells(made), 1.0)
            descend(scene, of_maker, loss)
    return nn.ModuleList([makes, tells])


def _loss(scores: Tensor, target: float) -> Tensor:
    wanted = torch.full_like(scores, target)
    return functional.binary_cross_entropy_with_logits(scores, wanted)


def _generator(channels: int) -> nn.Module:
    def doubled(into: int, out: int) -> list[nn.Module]:
        return [nn.ConvTranspose2d(into, out, 4, 2, 1), nn.BatchNorm2d(out), nn.ReLU()]

    return nn.Sequential(
        nn.ConvTranspose2d(LATENT, 8 * channels, 4),
        *doubled(8 * channels, 4 * channels),
        *doubled(4 * channels, 2 * channels),
        *doubled(2 * channels, channels),
        nn.ConvTranspose2d(channels, 3, 4, 2, 1),
        nn.Tanh(),
    )


def _discriminator(channels: int) -> nn.Module:
    def halved(into: int, out: int) -> list[nn.Module]:
        return [nn.Conv2d(into, out, 4, 2, 1), nn.LeakyReLU(0.2)]

    return nn.Sequential(
        *halved(3, channels),
        *halved(channels, 2 * channels),
        *halved(2 * channels, 4 * channels),
        *halved(4 * channels, 8 * channels),
        nn.Conv2d(8 * channels, 1, 4),
    )


def _classify(
    scene: Scene, model: nn.Module, optimizer: torch.optim.Optimizer, images: int
) -> nn.Module:
    batch, side = scene.batch(images), scene.wide(SIDE, TINY_SIDE)
    # Drawing random images takes longer than a step: two batches take turns.
    pictures = [scene.normal(batch, 3, side, side) for _ in range(2)]
    for number in scene.rounds:
        labels = scene.tokens(images, 1, CLASSES)[:, 0]
        with scene.step():
            with scene.autocast():
                loss = model(pixel_values=pictures[number % 2], labels=labels).loss
            descend(scene, optimizer, loss)
    return model
