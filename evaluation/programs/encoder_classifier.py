"""Classifiers of sequences whose memory others measured: rows of GPUMemNet's data set.

Measured by ``nvidia-smi`` once a second, training included (itu-rad/GPUMemNet, ``trans_data.csv``,
CC BY 4.0; arXiv 2602.17817). A row is one of the first nine of the file.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

STEPS = 4


class Row(NamedTuple):
    """A configuration, and the MiB that the driver showed."""

    classes: int
    width: int
    layers: int
    heads: int
    hidden: int
    dropout: float
    length: int
    words: int
    batch: int
    measured: int


ROWS = (
    Row(273, 128, 8, 8, 332, 0.1645, 512, 553_893, 64, 5_217),
    Row(570, 128, 9, 2, 344, 0.2850, 256, 267_646, 8, 2_297),
    Row(553, 768, 2, 8, 1_663, 0.4130, 512, 700_962, 32, 13_503),
    Row(688, 512, 9, 8, 1_628, 0.4366, 128, 610_502, 64, 10_249),
    Row(265, 1_024, 5, 8, 2_886, 0.3631, 512, 767_553, 8, 18_163),
    Row(521, 128, 10, 8, 487, 0.3417, 512, 334_696, 64, 5_633),
    Row(618, 768, 6, 16, 2_719, 0.2044, 256, 952_559, 8, 19_111),
    Row(503, 768, 3, 8, 2_575, 0.1544, 256, 608_949, 64, 13_299),
    Row(948, 128, 4, 8, 404, 0.2258, 512, 482_062, 8, 2_807),
)


class EncoderClassifier(nn.Module):
    """An encoder, and the mean of its outputs as a class."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.words = nn.Embedding(row.words, row.width)
        self.places = nn.Parameter(torch.zeros(1, row.length, row.width))
        layer = nn.TransformerEncoderLayer(
            row.width, row.heads, row.hidden, row.dropout, batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, row.layers)
        self.out = nn.Linear(row.width, row.classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the classes."""
        scores: Tensor = self.out(self.layers(self.words(tokens) + self.places).mean(1))
        return scores


def train(row: int) -> None:
    """Train one of the rows with Adam in float32, as its authors did."""
    its = ROWS[row]
    model = EncoderClassifier(its).to("cuda")
    model(torch.randint(its.words, (its.batch, its.length), device="cuda"))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for _ in range(STEPS):
        tokens = torch.randint(its.words, (its.batch, its.length)).to("cuda")
        classes = torch.randint(its.classes, (its.batch,)).to("cuda")
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(tokens), classes)
        loss.backward()
        optimizer.step()
        print(loss.item())
