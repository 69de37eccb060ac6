"""Seeded synthetic problems: training-like ones, and families whose optimum is known."""

from __future__ import annotations

from collections.abc import Callable

from instances.synthetic.family import MIB
from instances.synthetic.perfect_packings import (
    chained_packing,
    guillotine_packing,
    non_guillotine_packing,
    tight_capacity,
)
from instances.synthetic.repeatable_steps import repeatable_step
from instances.synthetic.scaling_family import scaling_family
from instances.synthetic.stream_packings import multi_stream_packing
from instances.synthetic.training_shapes import (
    data_parallel_graph,
    random_lifetimes,
    training_graph,
    training_trace,
)
from instances.synthetic.traps import best_fit_trap, first_fit_trap, neighbour_ring, size_order_trap
from planners.model.problem import Problem

FAMILIES: dict[str, Callable[..., Problem]] = {
    family.__name__: family
    for family in (
        guillotine_packing, non_guillotine_packing, tight_capacity, neighbour_ring,
        multi_stream_packing, chained_packing, first_fit_trap, best_fit_trap, size_order_trap,
        scaling_family, training_graph, data_parallel_graph, training_trace, random_lifetimes,
        repeatable_step,
    )
}  # fmt: skip
"""Every family by the name of its function; the first parameter says how large it is.

An ``InstanceError`` names each parameter that is out of range.
"""

__all__ = [
    "FAMILIES", "MIB", "best_fit_trap", "chained_packing", "data_parallel_graph", "first_fit_trap",
    "guillotine_packing", "multi_stream_packing", "neighbour_ring", "non_guillotine_packing",
    "random_lifetimes", "scaling_family", "size_order_trap", "tight_capacity", "training_graph",
    "training_trace",
]  # fmt: skip
