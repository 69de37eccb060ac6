"""Seeded random batches, made on the host and copied to the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle

import torch
from torch import Tensor
from torch.nn import Embedding, Module

from instances.extract.eager.training_loop import make_inputs

Inputs = dict[str, Tensor]

# Every classifier has these; of those in transformers the configuration knows how many there are.
FEWEST_CLASSES = 2


class RandomBatches:
    """Draws one microbatch after the other, of the names, shapes and types of `batch`."""

    def __init__(self, module: Module, batch: Inputs, seed: int, device: str) -> None:
        self._module = module
        self._batch = batch
        self._device = device
        # Its own, so that the inputs do not depend on what else draws.
        self._generator = torch.Generator().manual_seed(seed)
        self._limits = _limits(module)

    def next(self) -> Inputs:
        """Return new inputs on the device."""
        return self._copy(self._draw())

    def repeated(self, count: int) -> Callable[[], Inputs]:
        """Draw inputs now, at least one, and return what copies them to the device in turns.

        Drawing takes longer than a step of a small network, and would be timed with it.
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
            inputs, self._module, lambda name, _: inputs[name].to(self._device, non_blocking=True)
        )


def _limits(module: Module) -> dict[str, int]:
    """Return how many values an argument of whole numbers may take."""
    embeddings = [part for part in module.modules() if isinstance(part, Embedding)]
    tokens = max((part.num_embeddings for part in embeddings), default=FEWEST_CLASSES)
    config = getattr(module, "config", None)
    return {
        "input_ids": tokens,
        "decoder_input_ids": tokens,
        "labels": tokens if embeddings else getattr(config, "num_labels", FEWEST_CLASSES),
    }
