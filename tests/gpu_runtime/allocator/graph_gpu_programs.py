"""Programs that replay captured graphs in random order on a GPU, each for a process of its own.

``python -m tests.gpu_runtime.allocator.graph_gpu_programs NAME native|planned [WIDTH]`` prints
digests of all results, reserved bytes, and the median milliseconds of a replay by device events.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from contextlib import nullcontext
from random import Random
from typing import Any

import torch
from torch.nn import functional

from gpu_runtime import PlannedMemory
from tests.gpu_runtime.allocator.gpu_programs import digest, too_much
from tests.gpu_runtime.fitting.graph_programs import network

REPLAYS, WORDS = 200, 4000
random = Random(0)
found: list[str] = []
pairs: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []


def tokens_at_random(count: int) -> torch.Tensor:
    return torch.tensor(random.choices(range(WORDS), k=count), device="cuda")


def timed(call: Any) -> None:
    """Write NaN into memory that is free, then time a replay."""
    for _ in range(3):
        torch.full((random.randrange(1 << 24),), math.nan, device="cuda")
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begun.record()
    call()
    ended.record()
    pairs.append((begun, ended))


def replay(graphs: list[Any], is_one_pool: bool = False) -> None:
    """Replay each graph and then some in random order; look at what all have left.

    In one pool a replay may write to what later captures have left, under PyTorch as well.
    """
    for number, (graph, tokens, out) in enumerate(graphs + random.choices(graphs, k=REPLAYS)):
        tokens.copy_(tokens_at_random(len(tokens)))
        timed(graph.replay)
        if number >= len(graphs) - 1:
            found.append(digest(iter([out] if is_one_pool else [each[2] for each in graphs])))


def captured(model: Any, sizes: tuple[int, ...], pool: Any = None) -> list[Any]:
    """Capture a graph for each batch size, after a run without one."""
    graphs = []
    for size in sizes:
        tokens, graph = tokens_at_random(size), torch.cuda.CUDAGraph()
        with torch.no_grad():
            model(tokens)
            with torch.cuda.graph(graph, pool=pool):
                out = model(tokens)
        graphs.append((graph, tokens, out))
    return graphs


def decode(model: Any, is_one_pool: bool) -> None:
    """Replay graphs of many batch sizes."""
    pool = torch.cuda.graph_pool_handle() if is_one_pool else None
    replay(captured(model, (512, 256, 128, 64, 32, 1), pool), is_one_pool)


def blocks(model: Any) -> None:
    """Train with graphs of the forward and of the backward pass of four blocks."""
    sample = torch.randn(2048, model[0].embedding_dim, device="cuda", requires_grad=True)
    made = torch.cuda.make_graphed_callables(tuple(model[1:5]), ((sample,),) * 4)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(REPLAYS // 8):
        x = model[0](tokens_at_random(2048))
        for layer in made:
            x = layer(x)
        loss = model[5:](x).square().mean()
        timed(loss.backward)
        optimizer.step()
        optimizer.zero_grad()
        found.append(digest(iter([loss])))


def steps(model: Any) -> None:
    """Capture a whole step in three shapes, whose gradients end with it."""
    optimizer, graphs = torch.optim.AdamW(model.parameters(), capturable=True), []

    def step(tokens: torch.Tensor) -> torch.Tensor:
        loss = functional.cross_entropy(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    for size in (1536, 2048, 1024):
        tokens, graph, side = tokens_at_random(size), torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step(tokens)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            loss = step(tokens)
        graphs.append((graph, tokens, loss))
    replay(graphs)


def side_stream(model: Any) -> None:
    """Capture on a stream of the program, with copies, fills and work on a second stream."""
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        model(tokens_at_random(8))
    torch.cuda.synchronize()
    graphs = []
    for size in (300, 700):
        tokens, graph = tokens_at_random(size), torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph, stream=side):
            copied = model[0](tokens).repeat(64, 1).clone()
            zeros = torch.zeros_like(copied)
            other.wait_stream(side)
            with torch.cuda.stream(other):
                raised = copied * 2
                raised.record_stream(side)
                zeros.record_stream(other)
                zeros += 1
            side.wait_stream(other)
            out = model[1](zeros + raised)[:size].clone()
            del copied, zeros, raised
        graphs.append((graph, tokens, out))
    replay(graphs)


def paused(model: Any, memory: PlannedMemory) -> None:
    """Pause all memory while graphs are alive, then replay them."""
    graphs = captured(model, (64, 512))
    if memory.installed:
        assert memory.pause() > 0
        pause = memory.report().pause
        assert pause is not None
        assert pause.passed_on_bytes > 0
        memory.resume()
    replay(graphs)


def after_shortage(model: Any) -> None:
    """Capture again after a capture that ran out of memory."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            too_much()
    except torch.OutOfMemoryError:
        found.append("out of memory")
    del graph
    decode(model, False)


def compiled(model: Any) -> None:
    """Run PyTorch's own trees of graphs."""
    run: Any = torch.compile(model, mode="reduce-overhead")
    for number in range(6):
        with torch.no_grad():
            out = run(tokens_at_random(256 if number % 2 else 128))
        found.append(digest(iter([out])))


def between(model: Any, memory: PlannedMemory) -> None:
    """Run large batches without a graph between replays, and keep what each leaves."""
    graphs, kept = captured(model, (32, 512)), []
    for _ in range(20):
        with torch.no_grad(), memory.between_replays() if memory.installed else nullcontext():
            kept.append(model(tokens_at_random(4096))[::7].clone())
        if len(kept) > 3:
            kept.pop(random.randrange(4))
        for _ in range(3):
            graph, tokens, out = random.choice(graphs)
            tokens.copy_(tokens_at_random(len(tokens)))
            timed(graph.replay)
            found.append(digest(iter([out, *kept])))


PROGRAMS: dict[str, Any] = {
    "one-pool": lambda model, _: decode(model, True),
    "a-pool-each": lambda model, _: decode(model, False),
    "blocks": lambda model, _: blocks(model),
    "steps": lambda model, _: steps(model),
    "side-stream": lambda model, _: side_stream(model),
    "paused": paused,
    "after-shortage": lambda model, _: after_shortage(model),
    "compiled": lambda model, _: compiled(model),
    "between": between,
}


def run(name: str, allocator: str, width: str = "1024") -> dict[str, Any]:
    memory = PlannedMemory(strict=True)
    if allocator == "planned":
        memory.install()
    torch.manual_seed(0)
    model = network(int(width), 6, WORDS)
    if allocator == "planned":
        with memory.graphs(exclusive=True):
            PROGRAMS[name](model, memory)
    else:
        PROGRAMS[name](model, memory)
    torch.cuda.synchronize()
    times = [begun.elapsed_time(ended) for begun, ended in pairs]
    return {
        "found": [*found, digest(iter(model.parameters()))],
        "reserved": torch.cuda.memory_reserved(),
        "milliseconds": statistics.median(times) if times else 0.0,
        "graphs": memory.report().to_json()["graphs"] if memory.installed else None,
    }


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])))
