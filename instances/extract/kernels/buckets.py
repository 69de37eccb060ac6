"""Buffers of collectives: gradients in buckets for all-reduces, chunks of all-to-alls in chains."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from instances.extract.kernels.storages import Effort, Kernel, StepPhase, StorageTable
from instances.extract.kernels.streams import ALL_REDUCE, ALL_TO_ALL


def fill_buckets(
    sizes: Sequence[int], capacity: int, *, until_full: bool = False
) -> list[list[int]]:
    """Group gradients or parameters into buckets, in the order given.

    A bucket is closed before the member that would overfill it, so that no bucket exceeds the
    capacity but one that holds a single, larger member; or it is closed by the member that makes
    it full, so that only the last one is smaller than the capacity. Members are positions in
    `sizes`, the order in which gradients become ready.
    """
    buckets: list[list[int]] = []
    room = -1
    for position, size in enumerate(sizes):
        if (room <= 0) if until_full else (size > room):
            buckets.append([])
            room = capacity
        buckets[-1].append(position)
        room -= size
    return buckets


def find_ready_nodes(kernels: Sequence[Kernel], gradients: Sequence[int]) -> dict[int, int]:
    """Return the kernel after which each gradient may be communicated.

    Nothing but the optimizer may see a reduced gradient, and an all-reduce may not change a
    gradient that the backward pass still needs: a gradient counts as ready after the last
    kernel before the optimizer that touches its storage, be it as writer or as reader. Each
    storage comes with the position of that kernel.
    """
    ready_at = dict.fromkeys(gradients, -1)
    for node, kernel in enumerate(kernels):
        if kernel.phase is not StepPhase.OPTIMIZER:
            ready_at.update(dict.fromkeys(ready_at.keys() & kernel.touches, node))
    return ready_at


def insert_all_reduces(
    kernels: Sequence[Kernel],
    gradients: Sequence[int],
    size: Sequence[int],
    capacity: int,
) -> tuple[list[Kernel], list[tuple[int, ...]]]:
    """Insert one in-place all-reduce a bucket, right after its last gradient is ready.

    Storages of gradients are distinct, each holding that gradient alone: the tracer copies one that
    shares its storage, so that a tensor is in at most one chain. Buckets are in the order in which
    they become ready.

    Source: Lamprou et al. 2023, sections 1 and 4: gradients of one bulk communication lie
    contiguously, so that none is copied.
    """
    ready_at = find_ready_nodes(kernels, gradients)
    # Stable: gradients of one kernel stay in the order of the parameters.
    ready = sorted(gradients, key=lambda storage: ready_at[storage])
    positions = fill_buckets([size[storage] for storage in ready], capacity)
    buckets = [tuple(ready[position] for position in bucket) for bucket in positions]
    due: dict[int, list[Kernel]] = {}
    for bucket in buckets:
        all_reduce = Kernel(ALL_REDUCE, StepPhase.BACKWARD, writes=bucket)
        due.setdefault(ready_at[bucket[-1]], []).append(all_reduce)
    merged: list[Kernel] = []
    for node, kernel in enumerate(kernels):
        merged += [kernel, *due.get(node, [])]
    return merged, buckets


def chain_exchanges(
    kernels: Sequence[Kernel], storages: StorageTable, taken: Collection[int]
) -> tuple[list[Kernel], list[tuple[int, ...]]]:
    """Find the buffers of each all-to-all, and copy what lies in another buffer already.

    A tensor is in at most one chain. So a chunk that is sent on as it was received, or that is
    sent twice, is copied before it is sent, and so is one that the step cannot place: a
    parameter, or a gradient that must lie in its bucket, which `taken` names. Chains may be of
    one storage.
    """
    merged: list[Kernel] = []
    chains: list[tuple[int, ...]] = []
    chained = set(taken)
    for kernel in kernels:
        if kernel.op != ALL_TO_ALL:
            merged.append(kernel)
            continue
        copies = {
            chunk: storages.add(storages.size[chunk], f"{storages.name[chunk]} to send")
            for chunk in kernel.reads
            if chunk in chained
        }
        merged += [
            Kernel(
                "clone",
                kernel.phase,
                reads=(chunk,),
                creates=(copy,),
                effort=Effort(0, 2 * storages.size[chunk]),
            )
            for chunk, copy in copies.items()
        ]
        sent = tuple(copies.get(chunk, chunk) for chunk in kernel.reads)
        merged.append(replace(kernel, reads=sent))
        chains += [sent, kernel.creates]
        chained.update(sent, kernel.creates)
    return merged, chains
