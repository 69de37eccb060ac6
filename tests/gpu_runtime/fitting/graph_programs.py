"""Programs that capture graphs, for a GPU and for a trace. Each returns what it keeps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SIZES = (64, 32, 16, 8, 4, 2, 1)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        raised: Tensor = x + self.down(functional.gelu(self.up(self.norm(x))))
        return raised


def network(width: int = 1024, layers: int = 8, words: int = 32_000) -> nn.Sequential:
    stack = (Layer(width) for _ in range(layers))
    return nn.Sequential(nn.Embedding(words, width), *stack, nn.Linear(width, words)).to("cuda")


def decoding(shared: bool, sizes: tuple[int, ...] = SIZES) -> object:
    """Capture a graph for each batch size, into one pool or into a pool each."""
    model, kept = network(), []
    pool = torch.cuda.graph_pool_handle() if shared else None
    tokens = torch.zeros(max(sizes), dtype=torch.int64, device="cuda")
    with torch.no_grad():
        for size in sizes:
            model(tokens[:size])
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                scores = model(tokens[:size])
            kept.append((graph, scores))
    return model, tokens, kept


def blocks() -> object:
    """Train with graphs of the forward and of the backward pass of each layer."""
    model: Any = network()
    sample = torch.randn(2048, 1024, device="cuda", requires_grad=True)
    layers = tuple(model[1:-1])
    made = torch.cuda.make_graphed_callables(layers, tuple((sample,) for _ in layers))
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.zeros(2048, dtype=torch.int64, device="cuda")
    for _ in range(3):
        x = model[0](tokens)
        for layer in made:
            x = layer(x)
        torch.autograd.backward(model[-1](x).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    return model, made, optimizer


def trees() -> object:
    """Compute and train a compiled model, whose graphs PyTorch captures into one pool."""
    model: Any = network()
    compiled: Any = torch.compile(model, mode="reduce-overhead")
    tokens = torch.zeros(2048, dtype=torch.int64, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            scores = compiled(tokens)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        torch.autograd.backward(compiled(tokens).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    return model, compiled, scores, optimizer


PROGRAMS = {
    "one-pool": lambda: decoding(True),
    "a-pool-each": lambda: decoding(False),
    "smallest-first": lambda: decoding(True, SIZES[::-1]),
    "blocks": blocks,
    "trees": trees,
}
