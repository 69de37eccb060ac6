"""PanGu-alpha: a decoder whose last layer makes its queries from learnt embeddings of positions.

Parameters have the default dtype and are cast to bfloat16 for each computation. Norms, softmax and
the loss run in float32, as in the published network.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from instances.extract.models.networks.output import Output

COMPUTE_DTYPE = torch.bfloat16


@dataclass(frozen=True)
class PanguShape:
    """Shape of a PanGu-alpha."""

    # Number of layers, including the query layer at the end.
    layers: int
    # Width of the hidden state. The feed-forward networks are four times as wide inside.
    width: int
    heads: int
    # Number of words and of positions; the defaults are those of the published networks.
    vocabulary: int = 40000
    positions: int = 1024
    # Dropout probability of activations and of attention weights.
    dropout: float = 0.1


class CastLinear(nn.Linear):
    """A linear layer whose parameters are cast to the dtype of computation at each use."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.linear(input, self.weight.to(input.dtype), self.bias.to(input.dtype))


class Float32Norm(nn.LayerNorm):
    """A layer norm that computes in float32."""

    def forward(self, input: Tensor) -> Tensor:
        weight, bias = self.weight.float(), self.bias.float()
        normed = functional.layer_norm(input.float(), self.normalized_shape, weight, bias, self.eps)
        return normed.to(input.dtype)


class PanguLayer(nn.Module):
    """Attention and a feed-forward network, each with a layer norm in front."""

    def __init__(self, shape: PanguShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.scale = (shape.width // shape.heads) ** -0.5
        self.attention_norm = Float32Norm(shape.width)
        self.query = CastLinear(shape.width, shape.width)
        self.key = CastLinear(shape.width, shape.width)
        self.value = CastLinear(shape.width, shape.width)
        self.output = CastLinear(shape.width, shape.width)
        self.norm = Float32Norm(shape.width)
        self.expand = CastLinear(shape.width, 4 * shape.width)
        self.contract = CastLinear(4 * shape.width, shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, hidden: Tensor, bias: Tensor, asked: Tensor | None = None) -> Tensor:
        """Run the layer on `hidden`, (batch, seq, width).

        `bias`, (seq, seq) float32, is added to the attention scores. The queries are a projection
        of `asked`, or of the normed hidden state if `asked` is None.
        """
        normed = self.attention_norm(hidden)
        query, key, value = (
            layer(given).view(*hidden.shape[:2], self.heads, -1).transpose(1, 2)
            for layer, given in (
                (self.query, normed if asked is None else asked),
                (self.key, normed),
                (self.value, normed),
            )
        )
        scores = (query * self.scale) @ key.transpose(-1, -2)
        weights = (scores.float() + bias).softmax(-1).to(hidden.dtype)
        attended = (self.dropout(weights) @ value).transpose(1, 2).flatten(2)
        hidden = hidden + self.dropout(self.output(attended))
        expanded = functional.gelu(self.expand(self.norm(hidden)), approximate="tanh")
        result: Tensor = hidden + self.dropout(self.contract(expanded))
        return result


class Pangu(nn.Module):
    """PanGu-alpha for language modelling; the output layer uses the word embedding's weights."""

    def __init__(self, shape: PanguShape) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.queries = nn.Embedding(shape.positions, shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        self.layers = nn.ModuleList(PanguLayer(shape) for _ in range(shape.layers))
        self.norm = Float32Norm(shape.width)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Output:
        """Return the logits for token ids, (batch, seq) int64; if there are labels, the loss.

        Labels have the shape of the ids and are not shifted here.
        """
        tokens = input_ids.shape[1]
        position = torch.arange(tokens, device=input_ids.device)
        embedded = self.words(input_ids) + self.positions(position)
        hidden = self.dropout(embedded).to(COMPUTE_DTYPE)
        ahead = position[None] > position[:, None]
        bias = ahead.float() * -10000.0
        *layers, query_layer = self.layers
        for layer in layers:
            hidden = layer(hidden, bias)
        asked = self.queries(position).to(COMPUTE_DTYPE).expand_as(hidden)
        hidden = self.norm(query_layer(hidden, bias, asked))
        logits = functional.linear(hidden, self.words.weight.to(COMPUTE_DTYPE))
        if labels is None:
            return Output(outputs=(logits,))
        return Output(functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten()))
