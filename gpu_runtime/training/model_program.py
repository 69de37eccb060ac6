"""A program made of a registered model: its own loop on random batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Embedding, Module

from gpu_runtime.training.scene import Scene
from instances.extract.models import find_model
from instances.extract.models.building import build_module
from instances.extract.models.model_registry import register_own_models
from instances.extract.record.training_loop import TrainingLoop, make_inputs
from instances.traces.allocation_trace import Phase
from planners.errors import GaplessError

# Drawing a batch of images takes longer than the step of a small network.
DRAWN_MICROBATCHES = 4


def train(scene: Scene) -> Module:
    """Train the model of a run; the same run computes the same numbers."""
    run = scene.run
    if run.model is None:
        raise GaplessError(f"program {run.program}: a registered model is needed, found none")
    register_own_models(map(Path, run.model.files))
    model = find_model(run.model.name)
    settings = run.model.settings
    shape = model.settings(**run.model.shape, precision=settings.weights_precision)
    module, batch = build_module(model, shape, is_computed=True)
    module = module.to(scene.device)
    batches = RandomBatches(module, batch, run.seed, run.device)

    def begin(phase: Phase) -> None:
        if phase is Phase.OPTIMIZER:
            scene.note_gradients(module)

    loop = TrainingLoop(
        module,
        batches.next if scene.is_check else batches.repeated(DRAWN_MICROBATCHES),
        settings,
        run.device,
        begin,
        saw_loss=scene.note,
    )
    optimizer = loop.make_optimizer()
    for _ in scene.rounds:
        with scene.step():
            loop.run_iteration(optimizer)
    return module


Inputs = dict[str, Any]

# Classes of a classifier whose configuration does not tell their number.
FEWEST_CLASSES = 2


class RandomBatches:
    """Draws microbatches with the names, shapes and types of `batch`."""

    def __init__(self, module: Module, batch: Inputs, seed: int, device: str) -> None:
        self._module = module
        self._batch = batch
        self._device = device
        # A generator of its own, so that the inputs do not depend on other draws.
        self._generator = torch.Generator().manual_seed(seed)
        self._limits = _limits(module)

    def next(self) -> Inputs:
        return self._copy(self._draw())

    def repeated(self, count: int) -> Callable[[], Inputs]:
        """Draw `count` inputs now, and return a function that copies them to the device in turn.

        Drawing takes longer than a step of a small network, and would be timed with the step.
        """
        turns: Iterator[Inputs] = cycle([self._draw() for _ in range(count)])
        return lambda: self._copy(next(turns))

    def _draw(self) -> Inputs:
        return make_inputs(self._batch, self._module, self._draw_one)

    def _draw_one(self, name: str, like: Tensor) -> Tensor:
        drawn = self._values(name, like)
        # From pinned memory the host need not wait for the copy.
        return drawn.pin_memory() if self._device == "cuda" else drawn

    def _values(self, name: str, like: Tensor) -> Tensor:
        if name == "attention_mask":
            return torch.ones(like.shape, dtype=like.dtype)
        if not like.dtype.is_floating_point:
            limit = self._limits.get(name, FEWEST_CLASSES)
            return torch.randint(limit, like.shape, generator=self._generator, dtype=like.dtype)
        return torch.rand(like.shape, generator=self._generator, dtype=like.dtype)

    def _copy(self, inputs: Inputs) -> Inputs:
        return make_inputs(
            inputs, self._module, lambda _, like: like.to(self._device, non_blocking=True)
        )


def _limits(module: Module) -> dict[str, int]:
    """Return the number of values of each whole-number argument."""
    embeddings = [part for part in module.modules() if isinstance(part, Embedding)]
    tokens = max((part.num_embeddings for part in embeddings), default=FEWEST_CLASSES)
    config = getattr(module, "config", None)
    return {
        "input_ids": tokens,
        "decoder_input_ids": tokens,
        "labels": getattr(config, "num_labels", FEWEST_CLASSES),
    }
