"""The loop that most programs have: a batch, the loss, its gradient, the optimizer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gpu_runtime.training.scene import Scene


def loss_of(scene: Scene, model: nn.Module, tokens: Tensor) -> Tensor:
    """Return the loss of predicting each next token."""
    with scene.autocast():
        loss: Tensor = model(input_ids=tokens, labels=tokens).loss
    return loss


def descend(scene: Scene, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Go one step down the gradient of a loss."""
    torch.autograd.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    scene.note(loss)


def train_decoder(
    scene: Scene,
    model: nn.Module,
    next_tokens: Callable[[], Tensor],
    after_step: Callable[[int], None] = lambda _: None,
) -> nn.Module:
    """Train on one batch of tokens after the other; what comes after a step gets its number."""
    optimizer = scene.adamw(
        parameter for parameter in model.parameters() if parameter.requires_grad
    )
    for number in scene.rounds:
        tokens = next_tokens()
        with scene.step():
            loss = loss_of(scene, model, tokens)
            descend(scene, optimizer, loss)
        after_step(number)
    return model
