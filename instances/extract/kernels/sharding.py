"""Sharded data parallel: parameters gathered unit by unit, gradients reduced to shards.

Note: the model of sharding
---------------------------
Rationale. If every rank keeps only its shard of parameters, gradients and optimizer state (ZeRO's
third stage, PyTorch's FSDP, MindSpore's optimizer parallelism), full parameters become tensors of
the step. Communication that overlaps with computation gathers and frees them, in buffers that must
be contiguous. So a large model gets hundreds of chains.

Approach. A unit is a layer, or a group of parameters between layers (:func:`group_units`). Its
parameters fill buckets, each closed by the parameter that makes it full, so a large weight shares
its bucket with the small parameters before it. A bucket is flat, as in FSDP: its parameters lie end
to end, padded to shards of equal size, and one all-gather fills the whole bucket. So its parameters
are a chain, and in the backward pass a bias is gathered with its weight although no node reads it.
If no node reads a bucket in a stretch, such as an embedding in the backward pass, it is left out.
Gradients lie in the same order. A reduce-scatter reads the chain of a bucket right after its last
gradient is ready, and leaves the rank's shard, one tensor, to the optimizer.

Gathers run one unit ahead. The gather of a unit comes just before the unit in front of it, and
waits for the users of the unit before that one. So two units are gathered at a time, which is the
limit of FSDP's rate limiter (a third one if a unit is kept, see :data:`UNITS_BETWEEN`). The last
reader of a parameter in the stretch of its gather releases it, because no later node touches it.

The optimizer sees shards. A tensor of the optimizer that is as large as its parameter or gradient
is divided by the number of ranks; scalars are not.

Limits. A rank's part of a flat bucket has some parameters whole and none of others; here it has an
average part of each parameter, as if all were cut. Every unit is gathered for each use. FSDP keeps
the outermost unit, tied embeddings included, from the forward pass on, but this model releases it
and gathers it once more. Clipping takes the norm of the rank's shards; the all-reduce of that
scalar is left out. Parameters without a gradient stay whole on every rank, and so do buffers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby

from instances.extract.kernels.buckets import fill_buckets, find_ready_nodes
from instances.extract.kernels.storages import Effort, Kernel, StepPhase, StorageTable
from instances.extract.kernels.streams import ALL_GATHER, REDUCE_SCATTER
from planners.errors import InstanceError

# A unit stays gathered between two of its uses if at most this many other units are used in
# between. Tied weights, and biases at the seam of two units, need one.
UNITS_BETWEEN = 1


def layer_of(name: str) -> str | None:
    """Return the path up to its first number, ``"encoder.layer.3"``; none outside any layer."""
    path = name.split(".")
    for index, part in enumerate(path):
        if part.isdecimal():
            return ".".join(path[: index + 1])
    return None


def group_units(parameters: Sequence[int], name: Mapping[int, str]) -> list[list[int]]:
    """Group parameters, in the order of their first readers, by layers and the gaps between them.

    Embeddings before the first layer are one unit, the head behind the last one another.
    """
    units: dict[str, list[int]] = {}
    layer: str | None = None
    runs = 0
    for parameter in parameters:
        previous, layer = layer, layer_of(name[parameter])
        if layer is None and (previous is not None or not units):
            runs += 1
        # No path starts with a dot, so a run is never taken for a layer.
        units.setdefault(f".{runs}" if layer is None else layer, []).append(parameter)
    return list(units.values())


@dataclass(frozen=True)
class Residency:
    """A stretch of the step in which a unit is gathered."""

    unit: int
    # Nodes that read its parameters, at least one, in order.
    readers: tuple[int, ...]


def find_residencies(uses: Sequence[Collection[int]]) -> list[Residency]:
    """Divide the uses of each unit into stretches that one gather serves.

    Between two uses a unit is released, unless at most :data:`UNITS_BETWEEN` other units are
    used in between. So a layer is gathered once for the forward and once for the backward pass
    (recomputation included), tied weights once for each end of the model, and the last layer,
    whose backward pass follows at once, is kept. They are in the order of first readers.
    """
    readers: list[list[int]] = []
    unit_of: list[int] = []
    stretch_of: dict[int, int] = {}
    latest_use: dict[int, int] = {}
    for node, used in enumerate(uses):
        for unit in sorted(used):
            used_between = sum(
                latest > latest_use.get(unit, node) for latest in latest_use.values()
            )
            if unit not in stretch_of or used_between > UNITS_BETWEEN:
                stretch_of[unit] = len(readers)
                readers.append([])
                unit_of.append(unit)
            readers[stretch_of[unit]].append(node)
        latest_use.update(dict.fromkeys(used, node))
    return [Residency(*pair) for pair in zip(unit_of, map(tuple, readers), strict=True)]


def find_runs(uses: Sequence[Collection[int]]) -> list[list[int]]:
    """Divide the nodes that use any units into runs that use the same ones."""
    used = [(node, frozenset(units)) for node, units in enumerate(uses) if units]
    return [[node for node, _ in run] for _, run in groupby(used, key=lambda pair: pair[1])]


# Shards are whole 4-byte words: collectives of 16-bit numbers are aligned to that as well.
SHARD_WORD_BYTES = 4


@dataclass(frozen=True)
class Sharding:
    """The division of parameters among ranks, and its communication."""

    ranks: int
    # Bytes of full parameters from which on a bucket is full.
    bucket_bytes: int

    def shard_bytes(self, size: int) -> int:
        """Return the bytes of one rank's shard, rounded up to whole words."""
        return -(-size // (self.ranks * SHARD_WORD_BYTES)) * SHARD_WORD_BYTES

    def padding_bytes(self, size: int) -> int:
        """Return by how much all shards together exceed the whole."""
        return self.shard_bytes(size) * self.ranks - size

    def share_of(self, kernel: Kernel, divided: Set[int]) -> Kernel:
        """Return a kernel with the effort of one rank; `divided` are storages that ranks share."""
        is_shared = kernel.phase is StepPhase.OPTIMIZER and not divided.isdisjoint(kernel.touches)
        if kernel.effort is None or not is_shared:
            return kernel
        moved = self.shard_bytes(kernel.effort.moved_bytes)
        return replace(kernel, effort=Effort(kernel.effort.flops // self.ranks, moved))


@dataclass(frozen=True)
class _Bucket:
    """Parameters that lie end to end, and the gradients of those that have one."""

    unit: int
    parameters: tuple[int, ...]
    gradients: tuple[int, ...]


def shard_parameters(
    kernels: Sequence[Kernel],
    parameters: Sequence[int],
    gradients: Sequence[int],
    storages: StorageTable,
    sharding: Sharding,
) -> tuple[list[Kernel], list[tuple[int, ...]]]:
    """Insert all-gathers and reduce-scatters, and let the optimizer work on shards.

    Every gradient must have its own storage. Gathered parameters, shards and padding are added to
    the storages, and divided storages get other sizes. A chain may have one storage. Raises
    ``InstanceError`` if a parameter is written before the optimizer, which would make its shards
    stale.
    """
    _require_unwritten(kernels, parameters, storages)
    gradient_of = dict(zip(parameters, gradients, strict=True))
    buckets = _make_buckets(kernels, gradient_of, storages, sharding.bucket_bytes)
    divided = _find_divided(kernels, parameters, gradients, storages.size)
    gathers = _Gathers(kernels, buckets, storages, sharding)
    reductions = _Reductions(kernels, buckets, storages, sharding)
    for storage in divided.difference(gradients):
        storages.size[storage] = sharding.shard_bytes(storages.size[storage])
    merged: list[Kernel] = []
    for node, kernel in enumerate(kernels):
        merged += gathers.before.get(node, [])
        share = sharding.share_of(kernel, divided)
        merged.append(reductions.rewrite(gathers.rewrite(node, share)))
        merged += reductions.behind.get(node, [])
    return merged, [*gathers.chains, *reductions.chains]


def _require_unwritten(
    kernels: Sequence[Kernel], parameters: Sequence[int], storages: StorageTable
) -> None:
    for kernel in kernels:
        for storage in kernel.writes if kernel.phase is not StepPhase.OPTIMIZER else ():
            if storage in parameters:
                raise InstanceError(
                    f"operator {kernel.op} writes parameter {storages.name[storage]} in the "
                    f"{kernel.phase.value} pass; sharded parameters change in the optimizer only, "
                    f"so extract this model replicated"
                )


def _make_buckets(
    kernels: Sequence[Kernel],
    gradient_of: Mapping[int, int],
    storages: StorageTable,
    capacity: int,
) -> list[_Bucket]:
    first_read: dict[int, int] = {}
    for node, kernel in enumerate(kernels):
        for storage in kernel.reads:
            first_read.setdefault(storage, node)
    # A stable sort keeps the parameters of one kernel in their order.
    order = sorted(gradient_of, key=lambda parameter: first_read.get(parameter, len(kernels)))
    names = {parameter: storages.name[parameter] for parameter in order}
    buckets: list[_Bucket] = []
    for number, unit in enumerate(group_units(order, names)):
        sizes = [storages.size[parameter] for parameter in unit]
        for positions in fill_buckets(sizes, capacity, until_full=True):
            members = tuple(unit[position] for position in positions)
            gradients = tuple(gradient_of[parameter] for parameter in members)
            buckets.append(_Bucket(number, members, gradients))
    return buckets


def _find_divided(
    kernels: Sequence[Kernel],
    parameters: Sequence[int],
    gradients: Sequence[int],
    size: Sequence[int],
) -> set[int]:
    """Return the storages that hold a number for each number of a parameter.

    They are found by their size, from operator to operator. The optimizer works element by
    element, so a storage that a kernel touches together with a parameter or a gradient of equal
    size is divided in the same way.
    """
    divided = {*parameters, *gradients}
    for kernel in kernels:
        if kernel.phase is StepPhase.OPTIMIZER:
            sizes = {size[storage] for storage in divided.intersection(kernel.touches)}
            divided.update(storage for storage in kernel.touches if size[storage] in sizes)
    return divided


class _Gathers:
    """All-gathers, with their places in the order and the readers of their results."""

    def __init__(
        self,
        kernels: Sequence[Kernel],
        buckets: Sequence[_Bucket],
        storages: StorageTable,
        sharding: Sharding,
    ) -> None:
        self.before: dict[int, list[Kernel]] = {}
        self.chains: list[tuple[int, ...]] = []
        self._storages = storages
        self._sharding = sharding
        self._full: dict[int, dict[int, int]] = {}
        self._copies: dict[int, int] = {}
        unit_of = {p: bucket.unit for bucket in buckets for p in bucket.parameters}
        reads = [
            () if kernel.phase is StepPhase.OPTIMIZER else unit_of.keys() & kernel.reads
            for kernel in kernels
        ]
        uses = [{unit_of[parameter] for parameter in read} for read in reads]
        runs = find_runs(uses)
        run_of = {node: number for number, run in enumerate(runs) for node in run}
        for residency in find_residencies(uses):
            first = residency.readers[0]
            run = run_of[first]
            after = self._read_by(kernels, runs[run - 2]) if run >= 2 else ()
            gathers = [
                self._gather(bucket, residency, kernels[first].phase, after)
                for bucket in _read_buckets(residency, buckets, reads)
            ]
            self.before.setdefault(runs[max(run - 1, 0)][0], []).extend(gathers)

    def rewrite(self, node: int, kernel: Kernel) -> Kernel:
        """Let a kernel read the gathered parameters instead of the shards."""
        full = self._full.get(node)
        if full is None:
            return kernel
        return replace(kernel, reads=tuple(full.get(storage, storage) for storage in kernel.reads))

    def _read_by(self, kernels: Sequence[Kernel], nodes: Sequence[int]) -> tuple[int, ...]:
        """Return the gathered parameters that nodes read."""
        full = (
            self._full[node][storage]
            for node in nodes
            for storage in kernels[node].reads
            if storage in self._full[node]
        )
        return tuple(dict.fromkeys(full))

    def _gather(
        self, bucket: _Bucket, residency: Residency, phase: StepPhase, after: tuple[int, ...]
    ) -> Kernel:
        full = {parameter: self._copy(parameter) for parameter in bucket.parameters}
        for node in residency.readers:
            self._full.setdefault(node, {}).update(full)
        chain = tuple(full.values())
        padding = _pad(chain, self._storages, self._sharding)
        self.chains.append((*chain, *padding))
        return Kernel(ALL_GATHER, phase, bucket.parameters, (), (*chain, *padding), after)

    def _copy(self, parameter: int) -> int:
        # The parameter itself has its full size as long as gathers are made.
        count = self._copies[parameter] = self._copies.get(parameter, 0) + 1
        name = f"full {self._storages.name[parameter]}.{count}"
        return self._storages.add(self._storages.size[parameter], name)


def _read_buckets(
    residency: Residency, buckets: Sequence[_Bucket], reads: Sequence[Collection[int]]
) -> Iterator[_Bucket]:
    """Yield the buckets of the unit of which a reader reads something."""
    read = {parameter for node in residency.readers for parameter in reads[node]}
    for bucket in buckets:
        if bucket.unit == residency.unit and not read.isdisjoint(bucket.parameters):
            yield bucket


class _Reductions:
    """Reduce-scatters, behind which kernel they stand, and the shards they leave."""

    def __init__(
        self,
        kernels: Sequence[Kernel],
        buckets: Sequence[_Bucket],
        storages: StorageTable,
        sharding: Sharding,
    ) -> None:
        self.behind: dict[int, list[Kernel]] = {}
        self.chains: list[tuple[int, ...]] = []
        self._shard_of: dict[int, int] = {}
        gradients = [gradient for bucket in buckets for gradient in bucket.gradients]
        ready_at = find_ready_nodes(kernels, gradients)
        for bucket in buckets:
            total = sum(storages.size[gradient] for gradient in bucket.gradients)
            first, last = bucket.gradients[0], bucket.gradients[-1]
            name = f"shard of {storages.name[first]}"
            if first != last:
                name += f" to {storages.name[last]}"
            shard = storages.add(sharding.shard_bytes(total), name)
            padding = _pad(bucket.gradients, storages, sharding)
            self._shard_of.update(dict.fromkeys(bucket.gradients, shard))
            self.chains.append((*bucket.gradients, *padding))
            node = max(ready_at[gradient] for gradient in bucket.gradients)
            kernel = Kernel(
                REDUCE_SCATTER, StepPhase.BACKWARD, bucket.gradients, (), (shard, *padding)
            )
            self.behind.setdefault(node, []).append(kernel)

    def rewrite(self, kernel: Kernel) -> Kernel:
        """Let a kernel of the optimizer work on shards instead of gradients."""
        if kernel.phase is not StepPhase.OPTIMIZER:
            return kernel
        return replace(kernel, reads=self._shards(kernel.reads), writes=self._shards(kernel.writes))

    def _shards(self, storages: Sequence[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self._shard_of.get(storage, storage) for storage in storages))


def _pad(chain: Sequence[int], storages: StorageTable, sharding: Sharding) -> tuple[int, ...]:
    """Return the padding behind a buffer that the ranks do not divide evenly, if any."""
    size = sharding.padding_bytes(sum(storages.size[storage] for storage in chain))
    return (storages.add(size, "padding"),) if size else ()
