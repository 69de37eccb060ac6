"""A network of attention between the nodes of graphs (GATv2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.programs.language_models import descend
from gpu_runtime.training.scene import Scene

LEAST_NODES, MOST_NODES, EDGES_A_NODE = 4_000, 24_000, 12
WIDTH, HEADS, LAYERS, CLASSES = 64, 8, 3, 40


class AttentionLayer(nn.Module):
    """Each node takes from its neighbours by attention (Brody et al. 2022)."""

    def __init__(self, into: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.source, self.target = (nn.Linear(into, heads * width) for _ in range(2))
        self.score = nn.Parameter(torch.randn(heads, width) / width**0.5)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """Return the nodes after attention; edges are rows (source, target)."""
        sources = self.source(nodes).unflatten(1, (self.heads, -1))
        targets = self.target(nodes).unflatten(1, (self.heads, -1))
        sent = sources[edges[:, 0]]
        scores = (functional.leaky_relu(sent + targets[edges[:, 1]], 0.2) * self.score).sum(-1)
        weights = (scores - scores.detach().max()).exp()
        sums = weights.new_zeros(len(nodes), self.heads).index_add(0, edges[:, 1], weights)
        sent = sent * (weights / sums[edges[:, 1]].clamp(min=1e-9))[..., None]
        return torch.zeros_like(sources).index_add(0, edges[:, 1], sent).flatten(1)


class GraphNetwork(nn.Module):
    """Layers of attention, and a class for each node."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = HEADS * width
        self.first = nn.Linear(width, inner)
        self.layers = nn.ModuleList(AttentionLayer(inner, width, HEADS) for _ in range(LAYERS))
        self.last = nn.Linear(inner, CLASSES)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """Return the scores of the classes of each node."""
        hidden = self.first(nodes)
        for layer in self.layers:
            hidden = hidden + functional.elu(layer(hidden, edges))
        scores: Tensor = self.last(hidden)
        return scores


def graph_attention(scene: Scene) -> nn.Module:
    """Train on random graphs, each of another size."""
    width = scene.wide(WIDTH, 4)
    with torch.device(scene.device):
        model = GraphNetwork(width)
    optimizer = scene.adamw(model.parameters())
    for _ in scene.rounds:
        count = LEAST_NODES + scene.choice(MOST_NODES - LEAST_NODES)
        count = scene.wide(count, 8 + count % 16)
        nodes = scene.normal(count, width)
        edges = (scene.normal(EDGES_A_NODE * count, 2).sigmoid() * count).long()
        classes = (scene.normal(count).sigmoid() * CLASSES).long()
        with scene.step():
            descend(scene, optimizer, functional.cross_entropy(model(nodes, edges), classes))
    return model
