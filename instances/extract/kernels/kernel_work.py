"""Gives each kernel of a step its operations, its bytes, and whether it may run a second time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from instances.extract.kernels.storages import Kernel, StepPhase, planned_storages
from instances.extract.kernels.streams import COMMUNICATION_OPS
from planners.model.work import Work

PHASES = tuple(StepPhase)


def work_of_kernels(
    kernels: Sequence[Kernel], size: Sequence[int], persistent: Collection[int]
) -> Work | None:
    """Return the work of all kernels, in the order in which they run; none if no effort was traced.

    A kernel is repeatable unless it communicates, is the batch or the loss, writes a storage that
    lives from step to step, or reads one that a kernel before the optimizer changes later: a second
    run would find another value. The running statistics of a batch norm do not count as written,
    because PyTorch's ``native_batch_norm`` does not declare them, and its results do not depend on
    them.
    """
    if all(kernel.effort is None for kernel in kernels):
        return None
    kept = frozenset(persistent)
    changed_later: set[int] = set()
    repeatable: list[bool] = []
    for kernel in reversed(kernels):
        is_computed = kernel.effort is not None and kernel.op not in COMMUNICATION_OPS
        repeatable.append(
            is_computed
            and kept.isdisjoint(kernel.writes)
            and changed_later.isdisjoint(kernel.reads)
        )
        if kernel.phase is not StepPhase.OPTIMIZER:
            changed_later |= kept.intersection(kernel.writes)
    tensor = {storage: index for index, storage in enumerate(planned_storages(kernels))}
    return Work(
        flops=[0 if kernel.effort is None else kernel.effort.flops for kernel in kernels],
        moved_bytes=[_moved_bytes(kernel, size) for kernel in kernels],
        phase=[PHASES.index(kernel.phase) for kernel in kernels],
        repeatable=list(map(int, reversed(repeatable))),
        written=[
            (node, tensor[storage])
            for node, kernel in enumerate(kernels)
            for storage in kernel.writes
            if storage in tensor
        ],
    )


def _moved_bytes(kernel: Kernel, size: Sequence[int]) -> int:
    """Return the bytes that a kernel reads and writes."""
    if kernel.effort is not None:
        return kernel.effort.moved_bytes
    # A kernel also reads the storages that it changes in place.
    return sum(size[storage] for storage in (*kernel.touches, *kernel.writes))
