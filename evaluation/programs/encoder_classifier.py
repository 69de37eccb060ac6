"""Encoders whose memory others measured: the first rows of itu-rad/GPUMemNet's ``trans_data.csv``.

The data are under CC BY 4.0 (arXiv 2602.17817).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

STEPS = 4
# Classes, width, layers, heads, hidden, dropout, tokens, words, batch, and the MiB they measured.
ROWS = (
    (273, 128, 8, 8, 332, 0.1645, 512, 553_893, 64, 5_217),
    (570, 128, 9, 2, 344, 0.2850, 256, 267_646, 8, 2_297),
    (553, 768, 2, 8, 1_663, 0.4130, 512, 700_962, 32, 13_503),
    (688, 512, 9, 8, 1_628, 0.4366, 128, 610_502, 64, 10_249),
    (265, 1_024, 5, 8, 2_886, 0.3631, 512, 767_553, 8, 18_163),
    (521, 128, 10, 8, 487, 0.3417, 512, 334_696, 64, 5_633),
    (618, 768, 6, 16, 2_719, 0.2044, 256, 952_559, 8, 19_111),
    (503, 768, 3, 8, 2_575, 0.1544, 256, 608_949, 64, 13_299),
    (948, 128, 4, 8, 404, 0.2258, 512, 482_062, 8, 2_807),
)


class EncoderClassifier(nn.Module):
    """An encoder, and the mean of its outputs as a class."""

    def __init__(self, row: int) -> None:
        super().__init__()
        classes, width, layers, heads, hidden, dropout, length, words, *_ = ROWS[row]
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.zeros(1, length, width))
        layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout, batch_first=True)
        self.layers, self.out = nn.TransformerEncoder(layer, layers), nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the classes."""
        scores: Tensor = self.out(self.layers(self.words(tokens) + self.places).mean(1))
        return scores


def train(row: int) -> None:
    """Train one of the rows with Adam in float32, as its authors did."""
    classes, *_, length, words, batch, _ = ROWS[row]
    model = EncoderClassifier(row).to("cuda")
    model(torch.randint(words, (batch, length), device="cuda"))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for _ in range(STEPS):
        tokens = torch.randint(words, (batch, length)).to("cuda")
        wanted = torch.randint(classes, (batch,)).to("cuda")
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(tokens), wanted)
        torch.autograd.backward(loss)
        optimizer.step()
