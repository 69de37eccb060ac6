"""A problem in the largest unit that loses no best plan: small numbers make short proofs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planners.model.blocks import NOT_PINNED
from planners.model.columns import IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem


@dataclass(frozen=True, eq=False)
class ScaledBlocks:
    """The blocks of a problem, every number divided by ``unit``.

    Note: why scaling is exact. The unit divides every size, every pin, and every modulus that does
    not divide the unit. Take a best plan, keep for each unsafe pair which block lies below, and let
    every block sink as far as its neighbours and its condition allow. A block starts at its
    residue, moves only to the ends of other blocks, give or take sizes, and from there up to its
    residue class. Each of these numbers is a multiple of the unit, or belongs to a condition that
    every multiple satisfies. So some best plan has only multiples of the unit, and conditions that
    hold for all multiples can be left out.
    """

    unit: int
    # One entry for each block, in units; ``pinned`` is -1 if no offset is given.
    size: IntColumn
    modulus: IntColumn
    residue: IntColumn
    pinned: IntColumn
    # One entry for each tensor, in units: its size, and the part of its block in front of it.
    tensor_size: IntColumn
    before: IntColumn
    # Block of each tensor.
    block_of: IntColumn

    @property
    def count(self) -> int:
        return len(self.size)

    def up(self, bytes_: int) -> int:
        """Return a lower bound in units, rounded up."""
        return -(-bytes_ // self.unit)

    def down(self, bytes_: int) -> int:
        """Return an upper bound in units, rounded down."""
        return bytes_ // self.unit

    @cached_property
    def lowest(self) -> IntColumn:
        """The least offset of each block by itself, including blocks of size 0."""
        return np.where(self.pinned == NOT_PINNED, self.residue, self.pinned)

    def highest(self, peak: int) -> IntColumn:
        """Return each block's largest offset under a peak; below ``lowest`` if there is none."""
        last = peak - self.size
        last -= (last - self.residue) % self.modulus
        return np.where(self.pinned == NOT_PINNED, last, self.pinned)

    def heads(self, problem: Problem, plan: Plan) -> IntColumn:
        """Return the offset of every block in a plan, in units, rounded down."""
        blocks = problem.blocks
        return plan.offsets[blocks.members[blocks.indptr[:-1]]] // self.unit

    def plan(self, problem: Problem, heads: Sequence[int] | IntColumn) -> Plan:
        """Return the plan in which every block has the given offset."""
        return Plan.of_blocks(problem, np.asarray(heads, dtype=np.int64) * self.unit)


def scale_blocks(problem: Problem, ranges: IntColumn | None = None) -> ScaledBlocks:
    """Return the blocks of a problem in units of their common divisor.

    With the rows of ``block_ranges`` a block sinks no further than the first head of its range, so
    that the unit divides these heads too. What lies below and shares no byte stays so.
    """
    blocks = problem.blocks
    unit = _common_divisor(problem)
    if ranges is not None and len(ranges):
        unit = math.gcd(unit, _gcd(ranges[:, 1])) or 1
        unit = math.gcd(unit, _gcd(ranges[unit % ranges[:, 3] != 0, 3]))
    before = np.empty(problem.tensor_count, dtype=np.int64)
    before[blocks.members] = blocks.before
    implied = unit % np.maximum(blocks.modulus, 1) == 0
    return ScaledBlocks(
        unit,
        size=blocks.size // unit,
        modulus=np.where(implied, 1, blocks.modulus // unit),
        residue=np.where(implied, 0, blocks.residue // unit),
        pinned=np.where(blocks.pinned == NOT_PINNED, NOT_PINNED, blocks.pinned // unit),
        tensor_size=problem.size // unit,
        before=before // unit,
        block_of=blocks.block_of,
    )


def _common_divisor(problem: Problem) -> int:
    blocks = problem.blocks
    pins = blocks.pinned[blocks.pinned != NOT_PINNED]
    divisor = math.gcd(_gcd(problem.size), _gcd(pins))
    if divisor == 0:
        # No size or pin is nonzero, so residues are multiples of 1, and any common divisor will do.
        return 1
    # Moduli are powers of two. A modulus that divides the unit holds for every multiple of it.
    strict = blocks.modulus[divisor % blocks.modulus != 0]
    return math.gcd(divisor, _gcd(strict))


def _gcd(column: IntColumn) -> int:
    return int(np.gcd.reduce(column)) if len(column) else 0
