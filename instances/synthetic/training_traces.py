"""Lifetimes with the shape of a recorded training run."""

from __future__ import annotations

import random
from functools import partial

import numpy as np

from instances.synthetic.family import Drawing, family
from instances.synthetic.sizes import random_size
from planners.model.problem import Problem

OPERATIONS_PER_LAYER = 24


@family(tensors=0, layers=1)
def training_trace(tensors: int, *, layers: int | None = None, seed: int = 0) -> Drawing:
    """Return lifetimes with the shape of a recorded training run.

    Weights live throughout. Then microbatch follows microbatch: a forward sweep over equal
    layers, whose operations make an activation that lives to the mirrored step of the backward
    sweep or a temporary that a later operation of the layer frees, and the backward sweep.

    Parameters
    ----------
    tensors
        Number of tensors.
    layers
        Layers of the model, at least 1; about the cube root of a longer run by default, so that
        it has more layers and more microbatches.
    seed
        Start of every random choice.

    Returns
    -------
    Problem
        Sizes are multiples of 512 bytes, up to 64 MiB; one tensor starts at each step.
    """
    rng = random.Random(seed)
    depth = "" if layers is None else f"-{layers}-layers"
    layers = layers or max(2, round(tensors ** (1 / 3) / 2))
    weights = min(tensors // 4, layers * 8)
    template = [
        (random_size(rng), rng.random() < 0.35, 1 + rng.randrange(8))
        for _ in range(OPERATIONS_PER_LAYER)
    ]
    size = [random_size(rng) for _ in range(weights)]
    end = [tensors] * weights
    half = layers * OPERATIONS_PER_LAYER
    while len(size) < tensors:
        begun = len(size)
        for step in range(min(2 * half, tensors - begun)):
            bytes_, is_activation, lasts = template[step % OPERATIONS_PER_LAYER]
            keeps = is_activation and step < half
            size.append(bytes_)
            end.append(begun + (2 * half - step if keeps else step + lasts))
    start = np.arange(tensors)
    make = partial(Problem, size[:tensors], start, np.clip(end[:tensors], start + 1, tensors))
    return Drawing(make, f"trace-{tensors}{depth}")
