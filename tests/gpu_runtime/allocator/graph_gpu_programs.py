"""Programs that capture graphs and replay them in random order on a GPU, each for a process.

``python -m tests.gpu_runtime.allocator.graph_gpu_programs NAME native|planned [WIDTH]`` prints one
line of JSON: digests of all results, reserved bytes, and milliseconds of replays by device events.
"""

from __future__ import annotations

import json
import math
import sys
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gpu_runtime import PlannedMemory
from tests.gpu_runtime.allocator.gpu_programs import digest
from tests.gpu_runtime.fitting.graph_programs import network

REPLAYS = 200
WORDS = 4000


class Run:
    """Graphs with what they read and leave, all of it kept alive."""

    def __init__(self, allocator: str, width: int) -> None:
        self.memory = PlannedMemory(strict=True) if allocator == "planned" else None
        if self.memory is not None:
            self.memory.install()
        torch.manual_seed(0)
        self.model = network(width, 6, WORDS)
        self.graphs: list[tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = []
        self.random = Random(0)
        self.found: list[str] = []
        self.pairs: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def exclusive(self) -> AbstractContextManager[None]:
        return nullcontext() if self.memory is None else self.memory.graphs(exclusive=True)

    def junk(self) -> None:
        """Write NaN into memory that is free."""
        for _ in range(3):
            torch.full((self.random.randrange(1 << 24),), math.nan, device="cuda")

    def timed(self, call: Any) -> None:
        begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begun.record()
        call()
        ended.record()
        self.pairs.append((begun, ended))

    def replay(self, keeps: bool) -> None:
        """Replay graphs in random order; with `keeps`, look at what all have left each time."""
        drawn = self.random.choices(self.graphs, k=REPLAYS)
        # Before its first replay a graph has left nothing.
        for graph, tokens, out in self.graphs + drawn:
            tokens.copy_(torch.tensor([self.random.randrange(WORDS) for _ in range(len(tokens))]))
            self.junk()
            self.timed(graph.replay)
            left = [each[2] for each in self.graphs] if keeps else [out]
            if len(self.pairs) >= len(self.graphs):
                self.found.append(digest(iter(left)))

    def answer(self) -> dict[str, Any]:
        torch.cuda.synchronize()
        times = sorted(begun.elapsed_time(ended) for begun, ended in self.pairs)
        report = None if self.memory is None else self.memory.report()
        return {
            "found": self.found,
            "parameters": digest(self.model.parameters()),
            "reserved": torch.cuda.memory_reserved(),
            "milliseconds": times[len(times) // 2],
            "graphs": None if report is None else report.to_json()["graphs"],
        }


def decode(run: Run, is_shared: bool) -> None:
    """Capture a graph for each batch size, into one pool or into a pool each."""
    pool = torch.cuda.graph_pool_handle() if is_shared else None
    with torch.no_grad(), run.exclusive():
        for size in (512, 256, 128, 64, 32, 1):
            tokens = torch.zeros(size, dtype=torch.int64, device="cuda")
            run.model(tokens)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                out = run.model(tokens)
            run.graphs.append((graph, tokens, out))
    # In one pool a replay may write to what a later capture has left, under PyTorch as well.
    run.replay(keeps=not is_shared)


def blocks(run: Run) -> None:
    """Train with graphs of the forward and of the backward pass of four blocks."""
    width = run.model[0].weight.shape[1]
    sample = torch.randn(2048, width, device="cuda", requires_grad=True)
    layers = tuple(run.model[1:5])
    with run.exclusive():
        made = torch.cuda.make_graphed_callables(layers, tuple((sample,) for _ in layers))
    optimizer = torch.optim.AdamW(run.model.parameters())
    for _ in range(REPLAYS // 8):
        x = run.model[0](torch.tensor([run.random.randrange(WORDS) for _ in range(2048)]).cuda())
        for layer in made:
            x = layer(x)
            run.junk()
        loss = run.model[5:](x).square().mean()
        run.timed(loss.backward)
        optimizer.step()
        optimizer.zero_grad()
        run.found.append(digest(iter([loss])))


def steps(run: Run) -> None:
    """Capture a whole step in three shapes, whose gradients end with it."""
    optimizer = torch.optim.AdamW(run.model.parameters(), capturable=True)

    def step(tokens: Tensor) -> Tensor:
        loss = functional.cross_entropy(run.model(tokens), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    for size in (1536, 2048, 1024):
        tokens = torch.zeros(size, dtype=torch.int64, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step(tokens)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with run.exclusive(), torch.cuda.graph(graph):
            loss = step(tokens)
        run.graphs.append((graph, tokens, loss))
    run.replay(keeps=True)


PROGRAMS = {
    "one-pool": lambda run: decode(run, True),
    "a-pool-each": lambda run: decode(run, False),
    "blocks": blocks,
    "steps": steps,
}

if __name__ == "__main__":
    begun = Run(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1024)
    PROGRAMS[sys.argv[1]](begun)
    print(json.dumps(begun.answer()))
