"""Chains of all-to-all exchanges: what is sent lies contiguously, and so does what comes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from instances.extract.parallel.communication_ops import ALL_TO_ALL
from instances.extract.tracing.storages import Kernel, StorageTable


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
            Kernel("clone", kernel.phase, reads=(chunk,), creates=(copy,))
            for chunk, copy in copies.items()
        ]
        sent = tuple(copies.get(chunk, chunk) for chunk in kernel.reads)
        merged.append(replace(kernel, reads=sent))
        chains += [sent, kernel.creates]
        chained.update(sent, kernel.creates)
    return merged, chains
