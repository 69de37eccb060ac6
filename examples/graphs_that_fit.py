"""How many batch sizes can a server capture in 4 GiB? Asked without a GPU.

A server captures one graph of its decoder for each batch size, the largest first, into one pool.
`python -m gpu_runtime.fit FILE.py:FUNCTION` says what each of them adds to the reserved bytes.
"""

import json
import subprocess
import sys

import torch
from torch import Tensor, nn

MEMORY = "4GiB"
SIZES = (512, 448, 384, 320, 256, 192, 128, 96, 64, 32, 16, 8, 4, 2, 1)


class Layer(nn.Module):
    """A layer of a decoder that reads one new token of each request; its cache is left out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with what the layer adds to it."""
        raised: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return raised


def serve(width: int = 2048, layers: int = 36, words: int = 128_000) -> object:
    """Capture a graph for each batch size; return what a server keeps."""
    decoder = nn.Sequential(
        nn.Embedding(words, width), *(Layer(width) for _ in range(layers)), nn.Linear(width, words)
    ).to("cuda", torch.bfloat16)
    tokens = torch.zeros(max(SIZES), dtype=torch.int64, device="cuda")
    pool = torch.cuda.graph_pool_handle()
    kept = []
    with torch.no_grad():
        for size in SIZES:
            decoder(tokens[:size])
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                scores = decoder(tokens[:size])
            kept.append((graph, scores))
    return decoder, tokens, kept


if __name__ == "__main__":
    command = f"-m gpu_runtime.fit {__file__}:serve --memory {MEMORY} --json"
    run = subprocess.run(
        [sys.executable, *command.split()], capture_output=True, text=True, check=False
    )
    if run.returncode not in (0, 1):
        sys.exit(run.stderr)
    answer = json.loads(run.stdout)
    room = answer["memory"] - answer["beside"]
    for size, graph in zip(SIZES, answer["graphs"], strict=True):
        adds, own = (graph[pool] / 1024**2 for pool in ("adds", "own_pool"))
        fits = "fits" if graph["reserved"] <= room else "does not fit"
        print(f"batch {size:3}: {adds:6.1f} MiB more, {own:6.1f} MiB in a pool of its own; {fits}")
