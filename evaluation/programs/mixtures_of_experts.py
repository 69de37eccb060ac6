"""Mixtures of experts: the router decides at run time how many tokens each expert gets."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.programs.language_models import descend, qwen2_moe, train_decoder, words
from gpu_runtime.training.scene import Scene

LANGUAGE = 32_000
BATCH, LENGTH = 8, 1024


class LoopOverExperts(nn.Module):
    """A mixture in which each token goes through `chosen` experts; a loop runs all experts."""

    def __init__(self, width: int, hidden: int, experts: int, chosen: int = 2) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
            for _ in range(experts)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return for each token the weighted sum of the outputs of its chosen experts."""
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = self.router(flat).softmax(-1).topk(self.chosen)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            token, place = (chosen == number).nonzero(as_tuple=True)
            its = expert(flat[token]) * weights[token, place, None]
            out.index_add_(0, token, its.to(out.dtype))
        return out.view_as(x)


class SparseLayer(nn.Module):
    """A decoder layer: attention, then a mixture of experts."""

    def __init__(self, width: int, heads: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_experts = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.experts = LoopOverExperts(width, hidden, experts)

    def forward(self, x: Tensor) -> Tensor:
        """Return the input plus the outputs of attention and experts."""
        batch, length, width = x.shape
        parts = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = (part.transpose(1, 2) for part in parts.unbind(2))
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        out: Tensor = x + self.experts(self.before_experts(x))
        return out


class SparseDecoder(nn.Module):
    """A language model of sparse layers."""

    def __init__(
        self, number_of_words: int, layers: int, width: int, heads: int, hidden: int, experts: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(number_of_words, width)
        self.layers = nn.Sequential(
            *(SparseLayer(width, heads, hidden, experts) for _ in range(layers))
        )
        self.head = nn.Linear(width, number_of_words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the loss of predicting each next token."""
        scores = self.head(self.layers(self.embedding(tokens)))[:, :-1]
        return functional.cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten())


def sparse_decoder(scene: Scene) -> SparseDecoder:
    """Return a small decoder of our own, whose mixtures loop over their experts."""
    return SparseDecoder(
        words(scene, LANGUAGE),
        layers=scene.layers(6),
        width=scene.wide(1024, 32),
        heads=scene.wide(16, 2),
        hidden=scene.wide(2048, 64),
        experts=scene.wide(16, 8),
    )


def train_sparse(scene: Scene, model: nn.Module, optimizer: torch.optim.Optimizer) -> nn.Module:
    """Train a sparse decoder on one batch of tokens after the other."""
    for _ in scene.rounds:
        tokens = _tokens(scene)
        with scene.step():
            with scene.autocast():
                loss = model(tokens)
            descend(scene, optimizer, loss)
    return model


def loop_over_experts(scene: Scene) -> nn.Module:
    """Train a small decoder that loops over its experts."""
    with torch.device(scene.device):
        model = sparse_decoder(scene)
    return train_sparse(scene, model, scene.adamw(model.parameters()))


def qwen2_moe_eager(scene: Scene) -> nn.Module:
    """Train a Qwen2-MoE that runs its experts in a loop."""
    return train_decoder(scene, qwen2_moe(scene, "eager"), lambda: _tokens(scene))


def qwen2_moe_grouped(scene: Scene) -> nn.Module:
    """Train a Qwen2-MoE that runs its experts as one grouped matrix product."""
    return train_decoder(scene, qwen2_moe(scene, "grouped_mm"), lambda: _tokens(scene))


def _tokens(scene: Scene) -> Tensor:
    return scene.tokens(BATCH, scene.length(LENGTH), words(scene, LANGUAGE))
