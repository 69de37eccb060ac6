"""Programs that replay captured CUDA graphs in random order, in one pool or in a pool each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.programs.language_models import gpt2, llama, loss_of, words
from gpu_runtime.training.scene import Scene

SIZES = (128, 96, 64, 48, 32, 24, 16, 12, 8, 4, 2, 1)
PROMPTS, PROMPT = 16, 512
BLOCKS, WIDTH, HEADS, ROWS = 12, 1024, 16, 4096
LENGTHS = (384, 512, 256)
# PyTorch types neither.
_make_stream: Callable[..., Any] = torch.cuda.Stream
_graph_callables: Callable[..., Any] = torch.cuda.make_graphed_callables


@dataclass(frozen=True)
class Captured:
    """A graph, which returns what it leaves, and the tensor that it reads."""

    replay: Callable[[], Tensor]
    tokens: Tensor

    def run(self, scene: Scene) -> Tensor:
        """Replay the graph on new tokens."""
        batch, length = self.tokens.shape
        self.tokens.copy_(scene.tokens(batch, length, words(scene, 32_000)))
        _stamp(scene)
        return self.replay()


def decode_gpt2(scene: Scene, is_one_pool: bool = False) -> nn.Module:
    """Answer with a GPT-2 medium: a graph for each batch size reads one new token of each row."""
    return _decode(scene, gpt2(scene, layers=24, dtype=torch.bfloat16).eval(), is_one_pool)


def decode_llama(scene: Scene, is_one_pool: bool = False) -> nn.Module:
    """Answer with a Llama of 16 layers of width 2,048."""
    model = llama(scene, 2048, layers=16).to(torch.bfloat16).eval()
    return _decode(scene, model, is_one_pool)


def serve_gpt2(scene: Scene, is_one_pool: bool = False) -> nn.Module:
    """Read prompts without a graph, then answer by graphs, in turn."""
    model = gpt2(scene, layers=24, dtype=torch.bfloat16).eval()
    return _decode(scene, model, is_one_pool, reads_prompts=True)


def blocks(scene: Scene, is_one_pool: bool = False) -> nn.Module:
    """Train with graphs of the forward and of the backward pass of each of twelve blocks."""
    width, heads = scene.wide(WIDTH, 32), scene.wide(HEADS, 2)
    layers: list[Any] = [
        nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        for _ in range(scene.layers(BLOCKS))
    ]
    count = words(scene, 32_000)
    model = nn.Sequential(nn.Embedding(count, width), *layers, nn.Linear(width, count))
    model.to(scene.device, torch.bfloat16)
    parts = layers
    length = scene.length(512)
    batch = scene.wide(ROWS, 2 * length) // length
    if scene.is_cuda:
        sample = torch.zeros(batch, length, width, device=scene.device, dtype=torch.bfloat16)
        sample.requires_grad_()
        with scene.exclusive_graphs():
            if is_one_pool:
                parts = _graph_callables(tuple(layers), ((sample,),) * len(layers))
            else:
                parts = [_graph_callables(layer, (sample,)) for layer in layers]
    optimizer = scene.adamw(model.parameters())
    for _ in scene.rounds:
        tokens = scene.tokens(batch, length, count)
        _stamp(scene)
        with scene.step():
            hidden = model[0](tokens)
            for part in parts:
                hidden = part(hidden)
            loss = functional.cross_entropy(
                model[-1](hidden).flatten(0, 1).float(), tokens.flatten()
            )
            torch.autograd.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            scene.note(loss)
    return model


def steps(scene: Scene, is_one_pool: bool = False) -> nn.Module:
    """Capture a whole training step in three shapes, each of whose gradients end with it."""
    model = gpt2(scene)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=scene.is_cuda)

    def step(tokens: Tensor) -> Tensor:
        loss = loss_of(scene, model, tokens)
        torch.autograd.backward(loss)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    inputs = [scene.tokens(8, scene.length(length), words(scene)) for length in LENGTHS]
    return _replayed(scene, model, _captured(scene, step, inputs, is_one_pool))


def _decode(
    scene: Scene, model: nn.Module, is_one_pool: bool, reads_prompts: bool = False
) -> nn.Module:
    def answer(tokens: Tensor) -> Tensor:
        with torch.no_grad():
            scores: Tensor = model(input_ids=tokens).logits
        return scores

    inputs = [scene.tokens(size, 1, words(scene, 32_000)) for size in SIZES]
    made = _captured(scene, answer, inputs, is_one_pool)
    if not reads_prompts:
        return _replayed(scene, model, made)
    for _ in scene.rounds:
        with scene.step():
            with scene.between_replays():
                prompts = scene.tokens(PROMPTS, scene.length(PROMPT), words(scene, 32_000))
                read = answer(prompts)[:, -1].float().mean()
            for _ in range(4):
                scene.note(made[scene.choice(len(made))].run(scene).float().mean())
            scene.note(read)
    return model


def _captured(
    scene: Scene, run: Callable[[Tensor], Tensor], inputs: Sequence[Tensor], is_one_pool: bool
) -> list[Captured]:
    if not scene.is_cuda:
        return [Captured(partial(run, tokens), tokens) for tokens in inputs]
    made = []
    pool = torch.cuda.graph_pool_handle() if is_one_pool else None
    with scene.exclusive_graphs():
        for tokens in inputs:
            side = _make_stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                run(tokens)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                out = run(tokens)
            made.append(Captured(partial(_replay, graph, out), tokens))
    return made


def _replay(graph: torch.cuda.CUDAGraph, out: Tensor) -> Tensor:
    graph.replay()
    return out


def _replayed(scene: Scene, model: nn.Module, made: Sequence[Captured]) -> nn.Module:
    for _ in scene.rounds:
        with scene.step():
            scene.note(made[scene.choice(len(made))].run(scene).float().mean())
    return model


def _stamp(scene: Scene) -> None:
    """Write NaN into free memory, so that a graph that reads from it shows."""
    if scene.is_check and scene.is_cuda:
        for _ in range(3):
            torch.full((1 + scene.choice(1 << 24),), math.nan, device=scene.device)


# The same with all graphs in one pool.
decode_gpt2_one_pool = partial(decode_gpt2, is_one_pool=True)
decode_llama_one_pool = partial(decode_llama, is_one_pool=True)
serve_gpt2_one_pool = partial(serve_gpt2, is_one_pool=True)
blocks_one_pool = partial(blocks, is_one_pool=True)
steps_one_pool = partial(steps, is_one_pool=True)
