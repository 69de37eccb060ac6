"""Turns traced operations into kernels: views vanish, and in-place results keep their storage."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from planners import Graph
from planners.errors import InstanceError
from planners.model.work import Work


class StepPhase(enum.Enum):
    """Part of the training step that an operation belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"


@dataclass(frozen=True)
class Effort:
    """The operations and bytes of one call of an operator."""

    # Floating-point operations, two for a multiplication and an addition.
    flops: int
    # Bytes of all tensors that it is given and returns.
    moved_bytes: int


@dataclass(frozen=True)
class TracedOp:
    """One operation as the tracer saw it, views included."""

    # Unique in its trace.
    name: str
    # Operator without namespace and overload, ``"mul"``.
    op: str
    phase: StepPhase
    # Storages of all its tensor arguments.
    inputs: tuple[int, ...]
    # The `inputs` that it writes in place.
    mutated: tuple[int, ...]
    # Storages of its results; an output without a new storage is a view or the argument that was
    # written in place.
    outputs: tuple[int, ...]
    # None if the tracer did not see the tensors of the call.
    effort: Effort | None = None


@dataclass(frozen=True)
class Trace:
    """A traced training step; storages are numbered from 0."""

    # In the order in which they ran.
    ops: tuple[TracedOp, ...]
    # Bytes and name of each storage.
    size: tuple[int, ...]
    name: tuple[str, ...]
    # Storages that every step gets anew: tokens, labels.
    batch: tuple[int, ...]
    # Storages that live from step to step: parameters, buffers, optimizer state.
    persistent: frozenset[int]
    # For a storage that holds a new value of a persistent one, that persistent storage.
    updates: Mapping[int, int]
    # Storages of the gradients that ranks have in common, in the order of the parameters: those of
    # all trained parameters, except experts that only one rank has.
    gradients: tuple[int, ...]
    # Storages of the results of the step: the loss.
    returned: tuple[int, ...]
    # Storage of the parameter that each gradient belongs to, in the order of the gradients.
    parameters: tuple[int, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """An operation that runs on the device, and the storages it touches."""

    op: str
    phase: StepPhase
    # Storages it only reads.
    reads: tuple[int, ...] = ()
    # Storages that exist before and that it changes in place, whether it reads them or not.
    writes: tuple[int, ...] = ()
    # Storages that it creates.
    creates: tuple[int, ...] = ()
    # Storages that it does not touch, but for whose earlier readers it waits.
    after: tuple[int, ...] = ()
    # None for a kernel that is not a traced operation: the batch, the loss, an inserted collective.
    effort: Effort | None = None

    @property
    def touches(self) -> tuple[int, ...]:
        """Storages that it reads, writes or creates."""
        return (*self.reads, *self.writes, *self.creates)


class StorageTable:
    """Sizes and names of storages; communication adds storages to the table."""

    def __init__(self, size: Iterable[int], name: Iterable[str]) -> None:
        self.size = list(size)
        self.name = list(name)

    def add(self, size: int, name: str) -> int:
        """Append a storage and return its number."""
        self.size.append(size)
        self.name.append(name)
        return len(self.size) - 1


def merge_storages(trace: Trace) -> list[Kernel]:
    """Return the kernels of a traced step; the first creates the batch, the last reads the loss.

    An operation that neither writes nor creates a storage is a view, and no kernel. An in-place
    operation writes its existing storage. New values of parameters and moments are written into
    the persistent storage that they replace, as on a device, and so are not tensors of their own.
    The last kernel keeps the loss alive until the host can fetch it.
    """
    kernels = [Kernel("input", StepPhase.FORWARD, creates=trace.batch)]
    known = {*trace.batch, *trace.persistent}
    overwritten: set[int] = set()
    for op in trace.ops:
        _require_current(trace, op, overwritten)
        new = _distinct(storage for storage in op.outputs if storage not in known)
        known.update(new)
        updated = [trace.updates[storage] for storage in new if storage in trace.updates]
        overwritten.update(updated)
        creates = tuple(storage for storage in new if storage not in trace.updates)
        writes = _distinct([*(trace.updates.get(s, s) for s in op.mutated), *updated])
        if creates or writes:
            inputs = _distinct(trace.updates.get(storage, storage) for storage in op.inputs)
            reads = tuple(storage for storage in inputs if storage not in writes)
            kernels.append(Kernel(op.op, op.phase, reads, writes, creates, effort=op.effort))
    kernels.append(Kernel("output", StepPhase.OPTIMIZER, reads=_distinct(trace.returned)))
    return kernels


def _require_current(trace: Trace, op: TracedOp, overwritten: set[int]) -> None:
    for storage in op.inputs:
        if storage in overwritten:
            raise InstanceError(
                f"operation {op.name}: the old value of {trace.name[storage]} is read after its "
                f"new value was written into the same storage; read it before"
            )


def _distinct(storages: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(storages))


def find_control_arcs(kernels: Sequence[Kernel]) -> list[tuple[int, int]]:
    """Return the arcs, beyond producer to consumer, that every execution must respect.

    Arcs from a producer to its consumers do not order the consumers, which matters if one of them
    writes in place. They leave out persistent storages too, which are not tensors. So a reader
    waits for the latest write before it. A write waits for the latest write before it, and for all
    reads between the two. For example, the optimizer waits for the all-reduce of a gradient, and
    overwrites a parameter only after the backward pass has read it. A kernel with storages in
    `after` waits for all reads of them since their latest write. Arcs are sorted.
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


def planned_storages(kernels: Iterable[Kernel]) -> list[int]:
    """Return the storages that kernels create, in the order of the problem's tensors."""
    return [storage for kernel in kernels for storage in kernel.creates]


def graph_of_kernels(
    kernels: Sequence[Kernel],
    streams: Sequence[int] | None = None,
    control: Iterable[tuple[int, int]] = (),
    work: Work | None = None,
) -> Graph:
    """Return the graph of the planned storages; by default all kernels run on one stream."""
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
        work=work,
    )
