"""A recommender (DLRM) whose tables of embeddings have sparse gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.programs.language_models import descend
from gpu_runtime.training.scene import Scene

BATCH, TABLES, MOST_ROWS = 8_192, 26, 1_000_000
WIDTH, HIDDEN, NUMBERS = 128, 512, 13
# Rows that an event looks up in a table, on average: a random number for each table and step.
MOST_MEAN_BAG = 16


class Recommender(nn.Module):
    """Products of embeddings tell whether a user will click (Naumov et al. 2019)."""

    def __init__(self, rows: list[int], width: int, hidden: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(count, width, mode="sum", sparse=True) for count in rows
        )
        for weights in self.tables.parameters():
            nn.init.normal_(weights, std=0.01)
        self.first = nn.Sequential(nn.Linear(NUMBERS, width), nn.ReLU())
        both = width + (1 + len(rows)) ** 2
        self.last = nn.Sequential(nn.Linear(both, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, numbers: Tensor, bags: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Return a score for each event; a bag is the rows of all events, and where each begins."""
        known = self.first(numbers)
        found = [table(*bag) for table, bag in zip(self.tables, bags, strict=True)]
        every = torch.stack([known, *found], 1)
        products = every @ every.transpose(1, 2)
        scores: Tensor = self.last(torch.cat([known, products.flatten(1)], 1))
        return scores[:, 0]


def recommend(scene: Scene) -> nn.Module:
    """Train on events that look up random numbers of rows."""
    most, batch = scene.wide(MOST_ROWS, 60), scene.batch(BATCH)
    rows = [most // number for number in range(1, 1 + scene.wide(TABLES, 3))]
    with torch.device(scene.device):
        model = Recommender(rows, scene.wide(WIDTH, 8), scene.wide(HIDDEN, 16))
    optimizer = torch.optim.Adagrad(model.parameters(), 0.001)
    for _ in scene.rounds:
        numbers = scene.normal(batch, NUMBERS)
        bags = [_bag(scene, batch, count) for count in rows]
        clicks = (numbers.sum(1) > 0).float()
        with scene.step():
            loss = functional.binary_cross_entropy_with_logits(model(numbers, bags), clicks)
            descend(scene, optimizer, loss)
    return model


def _bag(scene: Scene, batch: int, rows: int) -> tuple[Tensor, Tensor]:
    looked_up = batch + scene.choice(batch * MOST_MEAN_BAG)
    begins = scene.tokens(1, batch, looked_up)[0].sort().values
    begins[0] = 0
    return scene.tokens(1, looked_up, rows)[0], begins
