"""A problem in the largest unit that loses no plan: small numbers make short proofs."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    size: list[int]
    modulus: list[int]
    residue: list[int]
    pinned: list[int]
    # One entry a tensor, in units: its size, and the units of its block in front of it.
    tensor_size: list[int]
    before: list[int]
    # Block of each tensor.
    block_of: list[int]

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

    def lowest(self, block: int) -> int:
        """Return the least offset that a block may take alone."""
        return self.residue[block] if self.pinned[block] == NOT_PINNED else self.pinned[block]

    def highest(self, block: int, peak: int) -> int:
        """Return the largest offset of a block under a peak; below :meth:`lowest` for none."""
        if self.pinned[block] != NOT_PINNED:
            return self.pinned[block]
        last = peak - self.size[block]
        return last - (last - self.residue[block]) % self.modulus[block]

    def heads(self, problem: Problem, plan: Plan) -> list[int]:
        """Return the offset of every block in a plan, in units, rounded down."""
        blocks = problem.blocks
        heads: list[int] = (plan.offsets[blocks.members[blocks.indptr[:-1]]] // self.unit).tolist()
        return heads

    def plan(self, problem: Problem, heads: list[int]) -> Plan:
        """Return the plan that puts every block at an offset."""
        return Plan.of_blocks(problem, np.array(heads, dtype=np.int64) * self.unit)


def scale_blocks(problem: Problem) -> ScaledBlocks:
    """Return the blocks of a problem in units of their common divisor."""
    blocks = problem.blocks
    unit = _common_divisor(problem)
    before = np.empty(problem.tensor_count, dtype=np.int64)
    before[blocks.members] = blocks.before
    implied = unit % np.maximum(blocks.modulus, 1) == 0
    return ScaledBlocks(
        unit,
        size=(blocks.size // unit).tolist(),
        modulus=np.where(implied, 1, blocks.modulus // unit).tolist(),
        residue=np.where(implied, 0, blocks.residue // unit).tolist(),
        pinned=np.where(blocks.pinned == NOT_PINNED, NOT_PINNED, blocks.pinned // unit).tolist(),
        tensor_size=(problem.size // unit).tolist(),
        before=(before // unit).tolist(),
        block_of=blocks.block_of.tolist(),
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
