"""A training step on several streams, as a graph."""

from __future__ import annotations

import random
from functools import partial

import numpy as np

from instances.synthetic.family import Drawing, family, require_between
from instances.synthetic.sizes import random_size
from planners.model.graph import MAX_STREAMS, Graph
from planners.model.problem import Problem


@family(tensors=2, streams=1, chain_length=2)
def training_graph(
    tensors: int, *, streams: int = 1, chains: int = 0, chain_length: int = 4, seed: int = 0
) -> Drawing:
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
        Number of contiguous chains, and tensors in each, at least 2; together they are at most
        the gradients, half of all tensors.
    seed
        Start of every random choice.

    Returns
    -------
    Problem
        One tensor a node; sizes are multiples of 512 bytes, up to 64 MiB.
    """
    require_between("streams", streams, 1, MAX_STREAMS)
    require_between("chains", chains, 0, (tensors - tensors // 2) // chain_length)
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
    size = [random_size(rng) for _ in range(tensors)]
    graph = Graph(
        op=["forward"] * half + ["backward"] * (tensors - half),
        stream=stream,
        producer=np.arange(tensors),
        consumers=[sorted(set(readers)) for readers in consumers],
    )
    gradients = list(range(half, tensors))
    rng.shuffle(gradients)
    picked = iter(gradients)
    chained = [[next(picked) for _ in range(chain_length)] for _ in range(chains)]
    make = partial(Problem, size, graph=graph, contiguous=chained)
    return Drawing(make, f"training-{tensors}-{streams}")
