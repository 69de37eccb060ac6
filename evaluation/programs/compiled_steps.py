"""Loops whose kernels are not launched one by one from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from evaluation.programs.language_models import gpt2, loss_of, train_decoder, words
from gpu_runtime.training.scene import Scene

BATCH, LENGTH = 8, 512
# PyTorch gives this constructor no types.
_make_stream: Callable[..., Any] = torch.cuda.Stream

# Eager steps before a capture, as PyTorch advises: libraries make workspaces at their first use.
EAGER_STEPS = 3


def compiled(scene: Scene) -> nn.Module:
    """Train a compiled model."""
    return _compiled(scene, gpt2(scene))


def reduce_overhead(scene: Scene) -> nn.Module:
    """Train a compiled model whose kernels PyTorch captures in graphs, in pools of their own."""
    return _compiled(scene, gpt2(scene, layers=6), mode="reduce-overhead")


def captured_graph(scene: Scene) -> nn.Module:
    """Replay forward and backward pass as a graph; copies and optimizer are launched one by one."""
    model = gpt2(scene)
    optimizer = scene.adamw(model.parameters())
    inputs = _tokens(scene)

    def pass_through() -> Tensor:
        loss = loss_of(scene, model, inputs)
        torch.autograd.backward(loss)
        return loss

    replay = _captured(scene, pass_through, optimizer.zero_grad)
    for _ in scene.rounds:
        tokens = _tokens(scene)
        with scene.step():
            inputs.copy_(tokens)
            loss = replay()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scene.note(loss)
    return model


def _captured(
    scene: Scene, run: Callable[[], Tensor], forget_gradients: Callable[[], None]
) -> Callable[[], Tensor]:
    """Return a function that replays the captured run; a replay overwrites the gradients."""
    if not scene.is_cuda:

        def again() -> Tensor:
            forget_gradients()
            return run()

        return again
    side = _make_stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(EAGER_STEPS):
            forget_gradients()
            run()
    torch.cuda.current_stream().wait_stream(side)
    forget_gradients()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = run()

    def replay() -> Tensor:
        graph.replay()
        return loss

    return replay


def _compiled(scene: Scene, model: nn.Module, **options: Any) -> nn.Module:
    # On a CPU no kernels are compiled: PyTorch traces the graph and runs it as it is.
    chosen = options if scene.is_cuda else {"backend": "aot_eager"}
    made: Any = torch.compile(model, **chosen)
    train_decoder(scene, made, lambda: _tokens(scene))
    return model


def _tokens(scene: Scene) -> Tensor:
    return scene.tokens(BATCH, scene.length(LENGTH), words(scene))
