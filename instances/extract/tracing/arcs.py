"""The order that reads and writes of one storage impose on kernels."""

from __future__ import annotations

from collections.abc import Sequence

from instances.extract.tracing.storages import Kernel


def find_control_arcs(kernels: Sequence[Kernel]) -> list[tuple[int, int]]:
    """Return the arcs, beyond producer to consumer, that every execution must respect.

    A tensor's arcs lead from its producer to all that touch it. They say nothing of the order
    among those, which matters as soon as one of them writes in place, and nothing of persistent
    storages, which are no tensors: a reader waits for the latest write before it, and a write
    for the latest write and for all that read since. So the optimizer waits for the all-reduce
    of a gradient, and overwrites a parameter only when the backward pass has read it. A kernel
    that comes *after* storages waits for those who have read them by then. Arcs are sorted.
    """
    arcs: set[tuple[int, int]] = set()
    creator: dict[int, int] = {}
    last_write: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for node, kernel in enumerate(kernels):
        for storage in kernel.creates:
            creator[storage] = node
        for storage in kernel.after:
            arcs.update((reader, node) for reader in readers.get(storage, ()))
        for storage in (*kernel.reads, *kernel.writes):
            if storage in last_write:
                arcs.add((last_write[storage], node))
        for storage in kernel.writes:
            arcs.update((reader, node) for reader in readers.pop(storage, []))
            last_write[storage] = node
        for storage in kernel.reads:
            readers.setdefault(storage, []).append(node)
    data_arcs = {
        (creator[storage], node)
        for node, kernel in enumerate(kernels)
        for storage in (*kernel.reads, *kernel.writes)
        if storage in creator
    }
    return sorted(arcs - data_arcs)
