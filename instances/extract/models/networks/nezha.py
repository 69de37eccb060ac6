"""NEZHA: BERT whose attention adds fixed encodings of relative positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from instances.extract.models.networks.output import Output


@dataclass(frozen=True)
class NezhaShape:
    """Shape of a NEZHA; the defaults are NEZHA-large."""

    layers: int = 24
    width: int = 1024
    heads: int = 16
    vocabulary: int = 21128
    # Positions farther apart share an encoding.
    max_distance: int = 64
    # Probability, of activations and of attention.
    dropout: float = 0.1

    @property
    def head_width(self) -> int:
        """Elements of one head."""
        return self.width // self.heads


def relative_encodings(max_distance: int, width: int) -> Tensor:
    """Return the sinusoidal encoding of every distance, (2 `max_distance` + 1, even `width`)."""
    distance = torch.arange(2 * max_distance + 1, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-9.21034 / width))
    angles = distance * rate
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class NezhaAttention(nn.Module):
    """Self-attention in which keys and values carry relative positions."""

    def __init__(self, shape: NezhaShape) -> None:
        super().__init__()
        self.shape = shape
        self.query = nn.Linear(shape.width, shape.width)
        self.key = nn.Linear(shape.width, shape.width)
        self.value = nn.Linear(shape.width, shape.width)
        self.output = nn.Linear(shape.width, shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, hidden: Tensor, bias: Tensor, table: Tensor) -> Tensor:
        """Attend from (batch, seq, width) to itself.

        The bias is added to the scores, (batch, 1, 1, seq); the table encodes each distance,
        (distances, head width).
        """
        query, key, value = (
            self._split(layer(hidden)) for layer in (self.query, self.key, self.value)
        )
        positions = torch.arange(hidden.shape[1], device=hidden.device)
        farthest = self.shape.max_distance
        distance = (positions[None] - positions[:, None]).clamp(-farthest, farthest) + farthest
        relative = functional.embedding(distance, table)
        scores = query @ key.transpose(-1, -2)
        scores = scores + torch.einsum("bhid,ijd->bhij", query, relative)
        scores = scores / self.shape.head_width**0.5 + bias
        weights = self.dropout(scores.softmax(-1))
        attended = weights @ value + torch.einsum("bhij,ijd->bhid", weights, relative)
        attended_heads: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return attended_heads

    def _split(self, hidden: Tensor) -> Tensor:
        return hidden.view(*hidden.shape[:2], self.shape.heads, -1).transpose(1, 2)


class NezhaLayer(nn.Module):
    """Attention and feed-forward, each with a residual and a norm after it."""

    def __init__(self, shape: NezhaShape) -> None:
        super().__init__()
        self.attention = NezhaAttention(shape)
        self.attention_norm = nn.LayerNorm(shape.width)
        self.expand = nn.Linear(shape.width, 4 * shape.width)
        self.contract = nn.Linear(4 * shape.width, shape.width)
        self.norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, hidden: Tensor, bias: Tensor, table: Tensor) -> Tensor:
        """Run the layer; arguments and result as in :class:`NezhaAttention`."""
        attended = self.dropout(self.attention(hidden, bias, table))
        hidden = self.attention_norm(attended + hidden)
        expanded = functional.gelu(self.expand(hidden))
        result: Tensor = self.norm(self.dropout(self.contract(expanded)) + hidden)
        return result


class Nezha(nn.Module):
    """NEZHA for masked-language modelling, the decoder tied to the embedding."""

    def __init__(self, shape: NezhaShape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.token_types = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        self.layers = nn.ModuleList(NezhaLayer(shape) for _ in range(shape.layers))
        self.transform = nn.Linear(shape.width, shape.width)
        self.transform_norm = nn.LayerNorm(shape.width)
        self.decoder_bias = nn.Parameter(torch.zeros(shape.vocabulary))
        table = relative_encodings(shape.max_distance, shape.head_width)
        self.table: Tensor
        self.register_buffer("table", table.to(torch.get_default_dtype()))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor,
        labels: Tensor | None = None,
    ) -> Output:
        """Predict the masked tokens of (batch, seq) int64; labels below 0 are no masked tokens."""
        hidden = self.words(input_ids) + self.token_types(token_type_ids)
        hidden = self.dropout(self.norm(hidden))
        bias = (1 - attention_mask[:, None, None].to(hidden.dtype)) * -10000.0
        for layer in self.layers:
            hidden = layer(hidden, bias, self.table)
        hidden = self.transform_norm(functional.gelu(self.transform(hidden)))
        logits = functional.linear(hidden, self.words.weight, self.decoder_bias)
        if labels is None:
            return Output(outputs=(logits,))
        return Output(functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten()))
