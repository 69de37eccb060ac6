"""Meta-learning: the backward pass goes through the gradient steps of each task."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from evaluation.programs.language_models import descend
from gpu_runtime.training.scene import Scene

TASKS, WAYS, SIDE = 4, 5, 84
EXAMPLES = (25, 50, 100)
INNER_STEPS, INNER_RATE = 3, 0.01


def second_order(scene: Scene) -> nn.Module:
    """Train a network to learn tasks of random size in three gradient steps."""
    side, channels = scene.wide(SIDE, 16), scene.wide(64, 4)
    with torch.device(scene.device):
        model = _network(channels, side)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    weights: dict[str, Tensor] = dict(model.named_parameters())
    for _ in scene.rounds:
        counts = [EXAMPLES[scene.choice(len(EXAMPLES))] for _ in range(TASKS)]
        tasks = [_task(scene, scene.wide(count, count // 5), side) for count in counts]
        with scene.step():
            losses = [_loss_after_learning(model, weights, *task) for task in tasks]
            descend(scene, optimizer, torch.stack(losses).mean())
    return model


def _task(scene: Scene, count: int, side: int) -> tuple[Tensor, Tensor]:
    """Return pictures to learn from and as many to be asked of, and their classes."""
    pictures = scene.normal(2, count, 3, side, side)
    return pictures, torch.arange(count, device=scene.device) % WAYS


def _loss_after_learning(
    model: nn.Module, weights: dict[str, Tensor], pictures: Tensor, classes: Tensor
) -> Tensor:
    for _ in range(INNER_STEPS):
        loss = functional.cross_entropy(functional_call(model, weights, pictures[0]), classes)
        gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        weights = {
            name: weight - INNER_RATE * gradient
            for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
        }
    return functional.cross_entropy(functional_call(model, weights, pictures[1]), classes)


def _network(channels: int, side: int) -> nn.Module:
    layers: list[nn.Module] = []
    for into in (3, channels, channels, channels):
        norm = nn.GroupNorm(1, channels)
        layers += [nn.Conv2d(into, channels, 3, padding=1), norm, nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * (side // 16) ** 2, WAYS))
