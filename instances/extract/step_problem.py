"""From a traced training step to a problem: kernels, buckets, streams, chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instances.extract.arcs import find_control_arcs
from instances.extract.buckets import insert_all_reduces
from instances.extract.settings import StepSettings
from instances.extract.storages import Kernel, Trace, merge_storages
from instances.extract.streams import assign_streams
from planners import Graph, Problem


def build_problem(
    trace: Trace, settings: StepSettings, name: str, origin: Mapping[str, str | int | float]
) -> Problem:
    """Build the problem of a training step's intermediate tensors.

    Every storage that begins within the step is a tensor: the batch, activations, gradients,
    temporaries of the optimizer. Parameters, buffers and optimizer state stay in memory of their
    own, as in the paper, and only order the nodes that touch them. Sizes are exact and alignment
    is 1: the 512 bytes that GPU allocators round to would forbid the chains, whose tensors follow
    each other directly and are often no multiple of that.

    Parameters
    ----------
    trace
        What ran.
    settings
        Streams and buckets.
    name, origin
        Provenance.

    Returns
    -------
    Problem
        With a graph, and a chain for each bucket of at least two gradients.
    """
    kernels, buckets = insert_all_reduces(
        merge_storages(trace), trace.gradients, trace.size, settings.bucket_bytes
    )
    storages = [storage for kernel in kernels for storage in kernel.creates]
    tensor = {storage: index for index, storage in enumerate(storages)}
    ops = [kernel.op for kernel in kernels]
    graph = Graph(
        op=ops,
        stream=assign_streams(ops, settings.nodes_per_stream),
        producer=[node for node, kernel in enumerate(kernels) for _ in kernel.creates],
        consumers=_find_consumers(kernels, tensor),
        control=find_control_arcs(kernels),
    )
    return Problem(
        [trace.size[storage] for storage in storages],
        graph=graph,
        contiguous=[
            tuple(tensor[storage] for storage in bucket) for bucket in buckets if len(bucket) > 1
        ],
        tensor_name=[trace.name[storage] for storage in storages],
        name=name,
        origin=dict(origin),
    )


def _find_consumers(kernels: Sequence[Kernel], tensor: Mapping[int, int]) -> list[list[int]]:
    consumers: list[list[int]] = [[] for _ in tensor]
    for node, kernel in enumerate(kernels):
        for storage in (*kernel.reads, *kernel.writes):
            if storage in tensor:
                consumers[tensor[storage]].append(node)
    return consumers
