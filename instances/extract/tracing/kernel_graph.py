"""Kernels in the order in which they run, as the graph of a problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from instances.extract.tracing.storages import Kernel
from planners import Graph


def planned_storages(kernels: Iterable[Kernel]) -> list[int]:
    """Return the storages that begin with a kernel, in the order of the problem's tensors."""
    return [storage for kernel in kernels for storage in kernel.creates]


def graph_of_kernels(
    kernels: Sequence[Kernel],
    streams: Sequence[int] | None = None,
    control: Iterable[tuple[int, int]] = (),
) -> Graph:
    """Return the graph of the planned storages; without streams the kernels run in order."""
    planned = planned_storages(kernels)
    tensor = {storage: index for index, storage in enumerate(planned)}
    consumers: list[list[int]] = [[] for _ in planned]
    for node, kernel in enumerate(kernels):
        for storage in (*kernel.reads, *kernel.writes):
            if storage in tensor:
                consumers[tensor[storage]].append(node)
    return Graph(
        op=[kernel.op for kernel in kernels],
        stream=[0] * len(kernels) if streams is None else streams,
        producer=[node for node, kernel in enumerate(kernels) for _ in kernel.creates],
        consumers=consumers,
        control=sorted(control),
    )
