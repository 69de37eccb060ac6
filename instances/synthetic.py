"""Seeded synthetic problems for benchmarks and scaling studies."""

from __future__ import annotations

import random

import numpy as np

from planners.graph import Graph
from planners.problem import Problem

MIB = 1 << 20


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
    size = [512 * max(1, int(rng.lognormvariate(4, 3))) for _ in range(tensors)]
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
        [min(bytes_, 64 * MIB) for bytes_ in size],
        graph=graph,
        contiguous=[[next(picked) for _ in range(chain_length)] for _ in range(chains)],
        name=f"training-{tensors}-{streams}",
        origin={"generator": "training_graph", "seed": seed},
    )


def training_trace(tensors: int, *, seed: int = 0) -> Problem:
    """Return lifetimes with the shape of a recorded training iteration.

    A tenth of the tensors live throughout (weights, moments), a third from the forward sweep to
    the mirrored backward step (activations), the rest for a few steps (temporaries); sizes repeat
    layer by layer.

    Parameters
    ----------
    tensors
        Number of tensors.
    seed
        Start of every random choice.

    Returns
    -------
    Problem
        Sizes are multiples of 512 bytes, up to 64 MiB; one tensor starts at each step.
    """
    rng = random.Random(seed)
    layer_sizes = [512 * max(1, int(rng.lognormvariate(5, 3))) for _ in range(64)]
    size = [min(layer_sizes[i % 64], 64 * MIB) for i in range(tensors)]
    start = np.arange(tensors)
    end = np.empty(tensors, dtype=np.int64)
    for i in range(tensors):
        kind = rng.random()
        if kind < 0.1:
            end[i] = tensors
        elif kind < 0.43 and i < tensors // 2:
            end[i] = max(i + 1, tensors - i - rng.randrange(4))
        else:
            end[i] = min(tensors, i + 1 + rng.randrange(8))
    return Problem(
        size,
        start,
        end,
        name=f"trace-{tensors}",
        origin={"generator": "training_trace", "seed": seed},
    )
