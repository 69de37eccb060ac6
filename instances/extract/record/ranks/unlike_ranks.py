"""Ranks whose shards differ from those of other ranks."""

from __future__ import annotations

import gc
from typing import Any

from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset


def unlike_ranks(ranks: int) -> list[int]:
    """Return the first rank of each kind.

    Ranks are alike if they hold shards of the same shapes, of all distributed tensors that live
    now. Other differences, such as the stages of a pipeline, are not seen.
    """
    # The model of another rank, which is over, may still wait for this.
    gc.collect()
    specs = {
        (each._spec.mesh, each._spec.placements, tuple(each.shape))
        for each in gc.get_objects()
        if type(each) is DTensor
    }
    first_of: dict[Any, int] = {}
    for rank in range(ranks):
        first_of.setdefault(tuple(_local_shape(rank, *spec) for spec in specs), rank)
    return list(first_of.values())


def _local_shape(rank: int, mesh: Any, placements: Any, shape: Any) -> tuple[int, ...]:
    """Return the shape of a rank's shard; the mesh of another rank has the same strides."""
    table = mesh.mesh
    origin = int(table.flatten()[0])
    coordinate = []
    for dim, count in enumerate(table.shape):
        if count > 1:
            step = int(table.select(dim, 1).flatten()[0]) - origin
            coordinate.append(rank // step % count)
        else:
            coordinate.append(0)
    return tuple(
        _compute_local_shape_and_global_offset(shape, tuple(table.shape), coordinate, placements)[0]
    )
