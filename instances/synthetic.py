"""Seeded synthetic problems for benchmarks and scaling studies."""

from __future__ import annotations

import random

import numpy as np

from planners.graph import Graph
from planners.problem import Problem

MIB = 1 << 20
OPERATIONS_PER_LAYER = 24


def training_graph(
    tensors: int, *, streams: int = 1, chains: int = 0, chain_length: int = 4, seed: int = 0
) -> Problem:
    """Return a problem with the shape of a training step on several streams.

    A forward sweep makes one tensor a node; the backward sweep reads each again, in reverse,
    and makes gradients, some of which lie in contiguous chains. Nodes are dealt to the streams
    in runs, the way a graph is cut by category with a limit of nodes a stream, and read what
    was made shortly before them, so that many arcs cross between streams.

    Parameters
    ----------
    tensors
        Number of tensors, at least 2.
    streams
        Number of streams.
    chains, chain_length
        Number of contiguous chains, and tensors in each.
    seed
        Start of every random choice.

    Returns
    -------
    Problem
        One tensor a node; sizes are multiples of 512 bytes, up to 64 MiB.
    """
    rng = random.Random(seed)
    half = tensors // 2
    consumers: list[list[int]] = [[] for _ in range(tensors)]
    for node in range(1, tensors):
        # Often the tensor just made, else one made lately: branches that can run side by side.
        source = node - 1 if rng.random() < 0.6 else rng.randrange(max(0, node - 50), node)
        consumers[source].append(node)
    for node in range(half):
        # The activation is read again at the mirrored step of the backward sweep.
        if rng.random() < 0.4:
            consumers[node].append(2 * half - 1 - node)
    run = max(1, tensors // (4 * streams))
    stream = [(node // run * 7919 + rng.randrange(3)) % streams for node in range(tensors)]
    size = [_size(rng) for _ in range(tensors)]
    graph = Graph(
        op=["forward"] * half + ["backward"] * (tensors - half),
        stream=stream,
        producer=np.arange(tensors),
        consumers=[sorted(set(readers)) for readers in consumers],
    )
    gradients = list(range(half, tensors))
    rng.shuffle(gradients)
    picked = iter(gradients)
    return Problem(
        size,
        graph=graph,
        contiguous=[[next(picked) for _ in range(chain_length)] for _ in range(chains)],
        name=f"training-{tensors}-{streams}",
        origin={"generator": "training_graph", "seed": seed},
    )


def training_trace(tensors: int, *, layers: int | None = None, seed: int = 0) -> Problem:
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
        (_size(rng), rng.random() < 0.35, 1 + rng.randrange(8)) for _ in range(OPERATIONS_PER_LAYER)
    ]
    size = [_size(rng) for _ in range(weights)]
    end = [tensors] * weights
    half = layers * OPERATIONS_PER_LAYER
    while len(size) < tensors:
        begun = len(size)
        for step in range(2 * half):
            bytes_, is_activation, lasts = template[step % OPERATIONS_PER_LAYER]
            keeps = is_activation and step < half
            size.append(bytes_)
            end.append(begun + (2 * half - step if keeps else step + lasts))
    start = np.arange(tensors)
    return Problem(
        size[:tensors],
        start,
        np.clip(end[:tensors], start + 1, tensors),
        name=f"trace-{tensors}{depth}",
        origin={"generator": "training_trace", "layers": layers, "seed": seed},
    )


def random_lifetimes(tensors: int, *, seed: int = 0) -> Problem:
    """Return lifetimes and sizes without structure: hard on anything that merges what touches.

    Parameters
    ----------
    tensors
        Number of tensors.
    seed
        Start of every random choice.

    Returns
    -------
    Problem
        Starts are uniform over ``tensors`` steps; one lifetime in ten is long.
    """
    rng = random.Random(seed)
    start = [rng.randrange(tensors) for _ in range(tensors)]
    longest = [tensors if rng.random() < 0.1 else 64 for _ in range(tensors)]
    return Problem(
        [_size(rng) for _ in range(tensors)],
        start,
        [begin + 1 + rng.randrange(most) for begin, most in zip(start, longest, strict=True)],
        name=f"random-{tensors}",
        origin={"generator": "random_lifetimes", "seed": seed},
    )


def _size(rng: random.Random) -> int:
    return min(512 * max(1, int(rng.lognormvariate(4, 3))), 64 * MIB)
