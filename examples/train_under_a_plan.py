"""Train under a plan: what it will save, said on any machine, and the training on a GPU.

Without a GPU, the step below is traced with tensors that have no contents, and its requests are
made again under three allocators. With a GPU, it trains.
"""

import subprocess
import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

import planners
from gpu_runtime import PlannedMemory

WORDS, WIDTH, HEADS = 32_000, 512, 8


class Layer(nn.Module):
    """Attention, and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inward = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.inward(self.norm(x)).unflatten(-1, (3, HEADS, -1)).transpose(1, 3)
        query, key, value = heads.unbind(2)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = torch.add(x, attended.transpose(1, 2).flatten(2))
        return torch.add(x, self.mlp(x))


def make_loop() -> Callable[[], None]:
    """Return one step of a training; both ways need it."""
    layers = [Layer() for _ in range(6)]
    network = nn.Sequential(nn.Embedding(WORDS, WIDTH), *layers, nn.Linear(WIDTH, WORDS)).cuda()
    optimizer = torch.optim.AdamW(network.parameters())

    def step() -> None:
        words = torch.zeros(16, 512, dtype=torch.int64, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = network(words)
        loss = functional.cross_entropy(scores.flatten(0, 1).float(), words.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def predict() -> None:
    """Say without a GPU what three allocators will reserve."""
    trace = [sys.executable, "-m", "instances.extract", "trace", f"{__file__}:make_loop"]
    subprocess.run([*trace, "--steps=6", "-o", "loop.npz"], check=True, capture_output=True)
    requests = planners.read_requests("loop.npz")
    run = planners.run_online(requests, "pytorch-caching,pytorch-expandable,planned")
    for row in run.rows:
        if row.result is not None:
            print(f"{row.label:18} {row.result.reserved_peak / 1024**3:6.3f} GiB reserved")


def train() -> None:
    """Train twenty steps under a plan."""
    memory = PlannedMemory(planner="auto")
    memory.install()
    step = make_loop()
    for _ in range(20):
        with memory.step():
            step()
    print(memory.report())


if __name__ == "__main__":
    train() if torch.cuda.is_available() else predict()
