"""From a traced training step to a problem: kernels, communication, streams, chains."""

from __future__ import annotations

from collections.abc import Mapping

from instances.extract.kernels.buckets import chain_exchanges, insert_all_reduces
from instances.extract.kernels.kernel_work import work_of_kernels
from instances.extract.kernels.sharding import Sharding, shard_parameters
from instances.extract.kernels.storages import (
    Kernel,
    StorageTable,
    Trace,
    find_control_arcs,
    graph_of_kernels,
    merge_storages,
    planned_storages,
)
from instances.extract.kernels.streams import assign_streams, find_successions
from instances.extract.step_settings import StepSettings, StreamScheme
from planners import Problem


def build_problem(
    trace: Trace, settings: StepSettings, name: str, origin: Mapping[str, str | int | float]
) -> Problem:
    """Build the problem of a training step's intermediate tensors.

    Every storage that begins within the step is a tensor: the batch, activations, gradients,
    temporaries of the optimizer, and full parameters where only shards of them are kept.
    Parameters or their shards, buffers and optimizer state stay in memory of their own, as in the
    paper, and only order the nodes that touch them. Sizes are exact and alignment is 1: the 512
    bytes that GPU allocators round to would forbid the chains, whose tensors follow each other
    directly and are often no multiple of that.

    Each buffer of at least two tensors that a collective reads or fills is a chain. The bytes of
    what stays apart are ``persistent_bytes`` in the origin.
    """
    storages = StorageTable(trace.size, trace.name)
    kernels, chains = _communicate(trace, settings, storages)
    planned = planned_storages(kernels)
    tensor = {storage: index for index, storage in enumerate(planned)}
    ops = [kernel.op for kernel in kernels]
    streams = assign_streams(ops, settings.nodes_per_stream, settings.stream_scheme)
    control = set(find_control_arcs(kernels))
    if settings.stream_scheme is StreamScheme.SUCCESSION:
        control.update(find_successions(ops, streams))
    work = work_of_kernels(kernels, storages.size, trace.persistent)
    graph = graph_of_kernels(kernels, streams, control, work)
    persistent = sum(storages.size[storage] for storage in trace.persistent)
    return Problem(
        [storages.size[storage] for storage in planned],
        graph=graph,
        contiguous=[
            tuple(tensor[storage] for storage in chain) for chain in chains if len(chain) > 1
        ],
        tensor_name=[storages.name[storage] for storage in planned],
        name=name,
        origin={**origin, "persistent_bytes": persistent},
    )


def _communicate(
    trace: Trace, settings: StepSettings, storages: StorageTable
) -> tuple[list[Kernel], list[tuple[int, ...]]]:
    """Return the kernels with those that communicate, and the buffers of the latter."""
    kernels, exchanged = chain_exchanges(
        merge_storages(trace), storages, {*trace.persistent, *trace.gradients}
    )
    if settings.sharded:
        sharding = Sharding(settings.ranks, settings.bucket_bytes)
        kernels, buckets = shard_parameters(
            kernels, trace.parameters, trace.gradients, storages, sharding
        )
    else:
        kernels, buckets = insert_all_reduces(
            kernels, trace.gradients, storages.size, settings.bucket_bytes
        )
    return kernels, [*exchanged, *buckets]
