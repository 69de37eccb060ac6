"""A data-parallel training step with buckets of gradients, as a graph."""

from __future__ import annotations

import random
from functools import partial
from math import isqrt

from instances.synthetic.family import MOST, Drawing, family, require_between
from instances.synthetic.sizes import random_size
from planners.model.graph import Graph
from planners.model.problem import Problem


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
    seed
        Start of every random choice.

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
