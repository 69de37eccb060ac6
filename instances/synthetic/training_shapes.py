"""Problems with the shape of training, as graphs or lifetimes, and lifetimes without structure."""

from __future__ import annotations

import random
from functools import partial
from math import isqrt

import numpy as np

from instances.synthetic.family import MOST, Drawing, family, random_size, require_between
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
    streams
        Number of streams.
    chains, chain_length
        Number of contiguous chains, and tensors in each, at least 2; together they are at most
        the gradients, half of all tensors.

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


@family(layers=1, branches=1, bucket_layers=1)
def data_parallel_graph(
    layers: int, *, branches: int = 2, bucket_layers: int = 8, seed: int = 0
) -> Drawing:
    """Return a data-parallel training step whose gradients are reduced bucket by bucket.

    Every layer runs its operations side by side on a stream a branch. The backward sweep makes a
    gradient a layer and branch; those of consecutive layers are a bucket, which lies in one piece
    of memory, since a stream for communication reduces it as soon as it is full, and a stream for
    the optimizer reads it after that.

    Parameters
    ----------
    layers
        Number of layers, at least 1.
    branches
        Streams for computation.
    bucket_layers
        Layers a bucket; a chain has this many times ``branches`` tensors.

    Returns
    -------
    Problem
        Five tensors a layer and branch: an activation, two workspaces, two gradients; and an
        update a bucket. Sizes are multiples of 512 bytes, up to 64 MiB.
    """
    # Each branch of a layer reads each branch of the layer before.
    require_between("branches", branches, 1, max(1, isqrt(MOST // layers)))
    rng = random.Random(seed)
    step = _Step()
    # Branches are alike from layer to layer, as the blocks of a model are.
    shapes = [[random_size(rng) for _ in range(4)] for _ in range(branches)]
    activations: list[list[int]] = []
    nodes: list[int] = []
    for _ in range(layers):
        nodes = [step.add("forward", branch, [*(activations[-1] if activations else [])])
                 for branch in range(branches)]  # fmt: skip
        activations.append([])
        for node, (kept, workspace, *_) in zip(nodes, shapes, strict=True):
            step.make(node, workspace)
            activations[-1].append(step.make(node, kept))
    upstream: list[int] = []
    bucket: list[int] = []
    for layer in reversed(range(layers)):
        nodes = [step.add("backward", branch, [*activations[layer], *upstream])
                 for branch in range(branches)]  # fmt: skip
        upstream = []
        for node, (kept, workspace, scratch, gradient) in zip(nodes, shapes, strict=True):
            step.make(node, workspace + scratch)
            upstream.append(step.make(node, kept))
            bucket.append(step.make(node, gradient))
        if (layers - layer) % bucket_layers == 0 or layer == 0:
            reduced = step.add("all-reduce", branches, bucket)
            update = step.add("update", branches + 1, bucket)
            step.control.append((reduced, update))
            step.make(update, sum(shape[3] for shape in shapes))
            step.chains += [bucket] if len(bucket) > 1 else []
            bucket = []
    make = partial(Problem, step.size, graph=step.graph(), contiguous=step.chains)
    return Drawing(make, f"data-parallel-{layers}-{branches}-{bucket_layers}")


class _Step:
    """Nodes and tensors of a graph that grows in global order."""

    def __init__(self) -> None:
        self.op: list[str] = []
        self.stream: list[int] = []
        self.size: list[int] = []
        self.producer: list[int] = []
        self.consumers: list[list[int]] = []
        self.control: list[tuple[int, int]] = []
        self.chains: list[list[int]] = []

    def add(self, op: str, stream: int, reads: list[int]) -> int:
        node = len(self.op)
        self.op.append(op)
        self.stream.append(stream)
        for tensor in reads:
            self.consumers[tensor].append(node)
        return node

    def make(self, node: int, size: int) -> int:
        self.size.append(size)
        self.producer.append(node)
        self.consumers.append([])
        return len(self.size) - 1

    def graph(self) -> Graph:
        return Graph(
            op=self.op,
            stream=self.stream,
            producer=self.producer,
            consumers=self.consumers,
            control=self.control,
        )


OPERATIONS_PER_LAYER = 24


@family(tensors=0, layers=1)
def training_trace(tensors: int, *, layers: int | None = None, seed: int = 0) -> Drawing:
    """Return lifetimes with the shape of a recorded training run.

    Weights live throughout. Then microbatch follows microbatch: a forward sweep over equal
    layers, whose operations make an activation that lives to the mirrored step of the backward
    sweep or a temporary that a later operation of the layer frees, and the backward sweep.

    Parameters
    ----------
    layers
        Layers of the model, at least 1; about the cube root of a longer run by default, so that
        it has more layers and more microbatches.

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


@family(tensors=0)
def random_lifetimes(tensors: int, *, seed: int = 0) -> Drawing:
    """Return lifetimes and sizes without structure: hard on anything that merges what touches.

    Returns
    -------
    Problem
        Starts are uniform over ``tensors`` steps; one lifetime in ten is long.
    """
    rng = random.Random(seed)
    start = [rng.randrange(tensors) for _ in range(tensors)]
    longest = [tensors if rng.random() < 0.1 else 64 for _ in range(tensors)]
    make = partial(
        Problem,
        [random_size(rng) for _ in range(tensors)],
        start,
        [begin + 1 + rng.randrange(most) for begin, most in zip(start, longest, strict=True)],
    )
    return Drawing(make, f"random-{tensors}")
