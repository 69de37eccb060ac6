"""A Gaussian process that gets more observations in every step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evaluation.programs.language_models import descend
from gpu_runtime.training.scene import Scene

FEATURES, FIRST, MORE = 16, 6_000, 64


class GaussianProcess(nn.Module):
    """A kernel of squared distances, with a length for each feature and noise."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.full((FEATURES,), -1.0))
        self.noise = nn.Parameter(torch.tensor(-1.0))

    def forward(self, places: Tensor, values: Tensor) -> Tensor:
        """Return the negative log likelihood of the values, less a constant, per value."""
        scaled = places * self.rates.exp()
        squares = scaled.square().sum(1) / 2
        kernel = (scaled @ scaled.T - squares[:, None] - squares).exp()
        noise = self.noise.exp() * torch.eye(len(places), device=places.device)
        factor = torch.linalg.cholesky(kernel + noise)
        solved = torch.cholesky_solve(values[:, None], factor)[:, 0]
        loss: Tensor = (values @ solved / 2 + factor.diagonal().log().sum()) / len(values)
        return loss


def growing(scene: Scene) -> nn.Module:
    """Fit the kernel to all observations so far; its matrix is larger in every step."""
    with torch.device(scene.device):
        model = GaussianProcess()
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    places = scene.normal(scene.wide(FIRST, 12), FEATURES)
    for _ in scene.rounds:
        with scene.step():
            places = torch.cat([places, scene.normal(scene.wide(MORE, 2), FEATURES)])
            descend(scene, optimizer, model(places, places.sum(1).sin()))
    return model
