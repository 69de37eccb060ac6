"""Global planning: groups and single requests in memory layers, from the largest size down."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planners import _core
from planners.homosize.homophase import LocalPlan
from planners.homosize.paper_variant import PaperVariant
from planners.homosize.requests import Requests
from planners.model.budget import Budget
from planners.model.columns import IntColumn


@dataclass(frozen=True, eq=False)
class GlobalPlan:
    """The places of units; a unit is a group or a single request."""

    # The units: the groups first, then the single requests.
    plans: list[LocalPlan]
    singles: Requests
    # int64, one entry for each unit: bytes, and half-open steps.
    size: IntColumn
    start: IntColumn
    end: IntColumn
    # int64, the layer of each unit.
    layer: IntColumn
    # int64, the offset of each unit within its layer, in bytes.
    within: IntColumn
    # int64 bytes, one entry for each layer, in the order in which layers were opened and are laid
    # out.
    layer_size: IntColumn

    @property
    def peak(self) -> int:
        """Bytes of all layers."""
        return int(self.layer_size.sum())

    @property
    def inserted(self) -> IntColumn:
        """Units in idle time of a layer of a larger size."""
        return np.flatnonzero(self.size < self.layer_size[self.layer])

    def offsets(self, tensors: int) -> IntColumn:
        """Return the address of every request."""
        base = np.cumsum(self.layer_size) - self.layer_size
        address = base[self.layer] + self.within
        offsets = np.zeros(tensors, dtype=np.int64)
        for unit, plan in enumerate(self.plans):
            offsets[plan.requests.tensor] = address[unit] + plan.address
        offsets[self.singles.tensor] = address[len(self.plans) :]
        return offsets


def plan_globally(
    plans: list[LocalPlan],
    singles: Requests,
    paper_variant: PaperVariant,
    budget: Budget | None = None,
) -> GlobalPlan:
    """Give every unit a place in a memory layer, from the largest size down.

    Units of one size are first inserted into idle time of the layers of larger sizes. Algorithm 1
    puts the rest into new layers.

    Source: Huang et al. 2026, section 5.1, HomoSize Group Planning and Global Planning.
    """
    size = _units([plan.size for plan in plans], singles.size)
    start = _units([plan.start for plan in plans], singles.start)
    end = _units([plan.end for plan in plans], singles.end)
    order = np.lexsort((start, -size))
    placed, below, layer_size = _core.plan_in_layers(
        size[order], start[order], end[order],
        paper_variant.layer == "smallest", paper_variant.beside,
        math.inf if budget is None else budget.remaining_seconds(),
    )  # fmt: skip
    layer = np.empty_like(size)
    within = np.empty_like(size)
    layer[order] = placed
    within[order] = below
    return GlobalPlan(plans, singles, size, start, end, layer, within, layer_size)


def _units(of_plans: list[int], of_singles: IntColumn) -> IntColumn:
    return np.concatenate([np.array(of_plans, dtype=np.int64), of_singles])
