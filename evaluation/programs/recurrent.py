"""A recurrent network on packed sequences."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from evaluation.programs.language_models import descend
from gpu_runtime.training.scene import Scene

SEQUENCES, LEAST_LENGTH, MOST_LENGTH = 256, 20, 159
WORDS, WIDTH, LAYERS = 32_000, 1024, 3


class Tagger(nn.Module):
    """A bidirectional LSTM that names a word for each word."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, LAYERS, batch_first=True, bidirectional=True)
        self.name = nn.Linear(2 * width, width)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the mean loss of all words within the lengths."""
        embedded = self.embed(tokens)
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        is_within = torch.arange(tokens.shape[1])[None] < lengths[:, None]
        kept = is_within.to(tokens.device)
        return functional.mse_loss(self.name(out)[kept], embedded.detach()[kept])


def packed_lstm(scene: Scene) -> nn.Module:
    """Train on sequences of random lengths."""
    words = scene.wide(WORDS, 64)
    with torch.device(scene.device):
        model = Tagger(words, scene.wide(WIDTH, 16))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in scene.rounds:
        batch = scene.batch(SEQUENCES)
        lengths = [scene.length_between(LEAST_LENGTH, MOST_LENGTH) for _ in range(batch)]
        tokens = scene.tokens(SEQUENCES, max(lengths), words)
        with scene.step():
            descend(scene, optimizer, model(tokens, torch.tensor(lengths)))
    return model
