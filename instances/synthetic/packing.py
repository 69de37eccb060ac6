"""A plan that came before its problem: rectangles in time and memory that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, NamedTuple

import numpy as np

from instances.synthetic.family import UNIT_BYTES, Drawing
from planners.model.columns import IntColumn
from planners.model.problem import Problem

PERFECT = "tensors fill time x memory up to this height: no step needs less, the packing no more"
"""The proof that goes with a rectangle filled without a gap."""


class Rectangle(NamedTuple):
    """A tensor with its place: steps ``[start, end)``, units of memory ``[bottom, top)``."""

    start: int
    end: int
    bottom: int
    top: int

    @property
    def area(self) -> int:
        """Steps times units."""
        return (self.end - self.start) * (self.top - self.bottom)


@dataclass(frozen=True, eq=False)
class Packing:
    """Tensors with the offsets of a plan that is known."""

    # int64 bytes, one a tensor.
    size: IntColumn
    # int64 steps, one a tensor, half-open.
    start: IntColumn
    end: IntColumn
    offset: IntColumn

    @property
    def height(self) -> int:
        """Peak of the known plan in bytes."""
        return int((self.offset + self.size).max(initial=0))

    def drawing(self, name: str, proof: str, **more: Any) -> Drawing:
        """Return the tensors without their offsets, where nothing can be below the known plan.

        ``more`` is what else the problem has.
        """
        make = partial(Problem, self.size, self.start, self.end, **more)
        return Drawing(make, name, self.height, proof, self.offset)


def pack(rectangles: Iterable[Rectangle], rng: Random) -> Packing:
    """Return rectangles as tensors in the order in which a program would allocate them.

    Note: why the order is random among those that start together. Greedy planners break ties by
    the index of a tensor; any order that follows from the offsets would tell them the plan.
    """
    ordered = list(rectangles)
    rng.shuffle(ordered)
    ordered.sort(key=lambda rectangle: rectangle.start)
    start, end, bottom, top = np.array(ordered, dtype=np.int64).T
    return Packing((top - bottom) * UNIT_BYTES, start, end, bottom * UNIT_BYTES)
