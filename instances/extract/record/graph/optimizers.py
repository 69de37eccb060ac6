"""Optimizers as functions: new parameters and state from old ones and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import torch
from torch import Tensor

# Keeps the clipping factor finite when all gradients are zero; PyTorch's clip_grad_norm_ has it.
CLIP_EPSILON = 1e-6


class Optimizer(Protocol):
    """The methods of an optimizer that a traced step calls."""

    def initial_state(self, parameter: Tensor) -> tuple[Tensor, ...]:
        """Return the state kept for a parameter from step to step."""

    def update(
        self, parameter: Tensor, gradient: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the parameter and its state after one step, as new tensors."""


@dataclass(frozen=True)
class AdamW:
    """AdamW, with the operations of PyTorch's ``AdamW(capturable=True)`` in the same order.

    A planned graph runs many times. Each parameter therefore has a step counter on the device,
    where the bias corrections are computed.
    """

    # The defaults of :class:`torch.optim.AdamW`. No value changes what is allocated.
    lr: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01

    def initial_state(self, parameter: Tensor) -> tuple[Tensor, ...]:
        """Return first and second moment, of the parameter's shape, and a scalar step counter."""
        step = torch.zeros((), dtype=torch.float32)
        return torch.zeros_like(parameter), torch.zeros_like(parameter), step

    def update(
        self, parameter: Tensor, gradient: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        mean, square, step = state
        step = step + 1
        decayed = parameter * (1 - self.lr * self.weight_decay)
        mean, square = self._moments(mean, square, gradient)
        mean_correction = 1 - self.beta1**step
        square_correction = 1 - self.beta2**step
        negative_rate = (self.lr / mean_correction).neg()
        scaled_root = square.sqrt() / (square_correction.sqrt() * negative_rate)
        denominator = scaled_root + self.eps / negative_rate
        return decayed.addcdiv(mean, denominator), (mean, square, step)

    def _moments(self, mean: Tensor, square: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        mean = torch.lerp(mean, gradient, 1 - self.beta1)
        return mean, (square * self.beta2).addcmul(gradient, gradient, value=1 - self.beta2)


@dataclass(frozen=True)
class Lamb(AdamW):
    """LAMB: Adam whose step is scaled, for each parameter, by the ratio of two norms.

    Source: You et al. 2020, algorithm 2, and its hyperparameters.
    """

    lr: float = 1e-3
    eps: float = 1e-6

    def update(
        self, parameter: Tensor, gradient: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        mean, square, step = state
        step = step + 1
        mean, square = self._moments(mean, square, gradient)
        corrected_mean = mean / (1 - self.beta1**step)
        root = (square / (1 - self.beta2**step)).sqrt()
        direction = (corrected_mean / (root + self.eps)).add(parameter, alpha=self.weight_decay)
        length, norm = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(direction)
        # A parameter of zeros, or a step of zeros, is not scaled.
        ratio = torch.where((length > 0) & (norm > 0), length / norm, 1.0)
        return parameter - direction * (ratio * self.lr), (mean, square, step)


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent with momentum, ``SGD(momentum=0.9, foreach=False)``."""

    # No value changes what is allocated.
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4

    def initial_state(self, parameter: Tensor) -> tuple[Tensor, ...]:
        """Return the momentum, of the parameter's shape."""
        return (torch.zeros_like(parameter),)

    def update(
        self, parameter: Tensor, gradient: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        decayed = gradient.add(parameter, alpha=self.weight_decay)
        momentum = decayed.add(state[0], alpha=self.momentum)
        return parameter.sub(momentum, alpha=self.lr), (momentum,)


OPTIMIZERS: MappingProxyType[str, Callable[[], Optimizer]] = MappingProxyType(
    {"adamw": AdamW, "sgd": Sgd, "lamb": Lamb}
)


def clip_factor(gradients: Sequence[Tensor], clip_norm: float) -> Tensor:
    """Return the factor that brings the global norm of gradients to at most `clip_norm`."""
    norms = [torch.linalg.vector_norm(gradient) for gradient in gradients]
    total = torch.linalg.vector_norm(torch.stack(norms))
    return torch.clamp(clip_norm / (total + CLIP_EPSILON), max=1.0)
