"""A problem in the largest unit that loses no plan: small numbers make short proofs."""

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

    Note: why scaling is exact. The unit divides every size and pin, and every modulus that it is
    not itself a multiple of. Take a best plan, keep for each unsafe pair which of both lies
    below, and let every block sink as far as that and its condition allow. Starting at its
    residue, a block moves only to the end of another, give or take sizes, and from there up to
    its residue class. Each of those is a multiple of the unit, or holds for every multiple of it.
    So some best plan has multiples of the unit alone, and the conditions that hold for each of
    them can be left out.
    """

    unit: int
    # One entry a block, in units; ``pinned`` is -1 where nothing is given.
    size: IntColumn
    modulus: IntColumn
    residue: IntColumn
    pinned: IntColumn
    # One entry a tensor, in units: its size, and the units of its block in front of it.
    tensor_size: IntColumn
    before: IntColumn
    # Block of each tensor.
    block_of: IntColumn

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.size)

    def up(self, bytes_: int) -> int:
        """Return the units of a lower bound."""
        return -(-bytes_ // self.unit)

    def down(self, bytes_: int) -> int:
        """Return the units of an upper bound."""
        return bytes_ // self.unit

    @cached_property
    def lowest(self) -> IntColumn:
        """The least offset that each block may take alone, also where it has no bytes."""
        return np.where(self.pinned == NOT_PINNED, self.residue, self.pinned)

    def highest(self, peak: int) -> IntColumn:
        """Return the largest offset of each block under a peak; below ``lowest`` for none."""
        last = peak - self.size
        last -= (last - self.residue) % self.modulus
        return np.where(self.pinned == NOT_PINNED, last, self.pinned)

    def heads(self, problem: Problem, plan: Plan) -> IntColumn:
        """Return the offset of every block in a plan, in units, rounded down."""
        blocks = problem.blocks
        return plan.offsets[blocks.members[blocks.indptr[:-1]]] // self.unit

    def plan(self, problem: Problem, heads: Sequence[int] | IntColumn) -> Plan:
        """Return the plan that puts every block at an offset."""
        return Plan.of_blocks(problem, np.asarray(heads, dtype=np.int64) * self.unit)


def scale_blocks(problem: Problem) -> ScaledBlocks:
    """Return the blocks of a problem in units of their common divisor."""
    blocks = problem.blocks
    unit = _common_divisor(problem)
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
        # Nothing has a size: residues are multiples of 1, and any unit that divides all will do.
        return 1
    # Moduli are powers of two; those that divide the unit already need not divide it further.
    strict = blocks.modulus[divisor % blocks.modulus != 0]
    return math.gcd(divisor, _gcd(strict))


def _gcd(column: IntColumn) -> int:
    return int(np.gcd.reduce(column)) if len(column) else 0
