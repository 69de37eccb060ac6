"""A selective state-space model (Mamba) whose recurrence runs token by token."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.programs.language_models import descend, words
from gpu_runtime.training.scene import Scene

BATCH, LENGTH, LANGUAGE = 8, 256, 32_000
WIDTH, LAYERS, STATES, WINDOW = 768, 6, 16, 4


class SelectiveLayer(nn.Module):
    """Each channel keeps states, which each token decays, writes to and reads (Gu and Dao 2023)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner, rank = 2 * width, width // 16
        self.parts = (rank, STATES, STATES)
        self.norm = nn.LayerNorm(width)
        self.enter = nn.Linear(width, 2 * inner, bias=False)
        self.window = nn.Conv1d(inner, inner, WINDOW, padding=WINDOW - 1, groups=inner)
        self.select, self.pace = nn.Linear(inner, sum(self.parts)), nn.Linear(rank, inner)
        self.decay = nn.Parameter(torch.arange(1.0, STATES + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.leave = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the input plus the output of the states."""
        inputs, gate = self.enter(self.norm(x)).chunk(2, -1)
        near = self.window(inputs.transpose(1, 2))[..., : x.shape[1]]
        inputs = functional.silu(near).transpose(1, 2)
        rank, write, read = self.select(inputs).split(self.parts, -1)
        pace = functional.softplus(self.pace(rank).float())
        kept = (-pace[..., None] * self.decay.exp()).exp()
        written = (pace * inputs)[..., None] * write[:, :, None]
        state, seen = torch.zeros_like(written[:, 0]), []
        for keep, add, look in zip(kept.unbind(1), written.unbind(1), read.unbind(1), strict=True):
            state = keep * state + add
            seen.append(state @ look[..., None])
        out = torch.cat(seen, -1).transpose(1, 2) + self.skip * inputs
        return torch.add(x, self.leave(out * functional.silu(gate)))


def token_by_token(scene: Scene) -> nn.Module:
    """Train a Mamba of 6 layers of 768 without fused kernels."""
    language, width = words(scene, LANGUAGE), scene.wide(WIDTH, 32)
    with torch.device(scene.device):
        layers = [SelectiveLayer(width) for _ in range(scene.layers(LAYERS))]
        model = nn.Sequential(nn.Embedding(language, width), *layers, nn.Linear(width, language))
    optimizer = scene.adamw(model.parameters())
    for _ in scene.rounds:
        tokens = scene.tokens(BATCH, scene.length(LENGTH), language)
        with scene.step():
            with scene.autocast():
                scores = model(tokens)[:, :-1].flatten(0, 1)
                loss = functional.cross_entropy(scores, tokens[:, 1:].flatten())
            descend(scene, optimizer, loss)
    return model
