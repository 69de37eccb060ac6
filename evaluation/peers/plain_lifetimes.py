"""The form of a problem for packages that plan lifetimes alone: sizes in units, and steps.

Note: equal terms
-----------------
Rationale. Packages round sizes to blocks of their own, such as 16 or 256 bytes. The rounding would
make a package's plans look worse than its method.

Approach. All sizes and alignments of a problem are multiples of one unit. A package is given one of
its own blocks for each unit, so that it never rounds, and its offsets are brought back.

Limits. A rule that looks at the number of bytes itself, such as size classes, sees a multiple of
the real number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from planners.model.blocks import NOT_PINNED
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.registry import UnsupportedProblemError


@dataclass(frozen=True)
class PlainLifetimes:
    """The tensors that have bytes, in the order in which a package is given them."""

    problem: Problem
    # Indices in the problem.
    tensors: Sequence[int]
    # Bytes of a unit; sizes are in units.
    unit: int
    size: Sequence[int]
    # The first and the last step in which each tensor needs its bytes; the earliest step is 0.
    first: Sequence[int]
    last: Sequence[int]

    @property
    def rows(self) -> list[tuple[int, int, int]]:
        """Size, first and last step of each tensor."""
        return list(zip(self.size, self.first, self.last, strict=True))

    def in_units(self) -> Problem:
        """Return a problem without alignment whose bytes are the units of this one."""
        return Problem(self.size, self.first, [1 + last for last in self.last])

    def plan(self, offsets: Sequence[int], block: int = 1) -> Plan:
        """Return the plan of offsets that count ``block`` for each unit."""
        columns = np.zeros(self.problem.tensor_count, dtype=np.int64)
        for tensor, offset in zip(self.tensors, offsets, strict=True):
            units, rest = divmod(offset, block)
            # An offset within a block is rounded up; rounded down, it would hide an overlap.
            columns[tensor] = (units + (rest > 0)) * self.unit
        return Plan.of(self.problem, columns)


def require_lifetimes(problem: Problem, package: str) -> None:
    """Refuse a problem of more than lifetimes on one stream, such as one with gaps or chains."""
    if not problem.lifetimes_decide:
        raise UnsupportedProblemError(
            f"{problem.name}: {package} plans lifetimes on one stream, and here field "
            f"{problem.safety.value} decides safety; leave the instance out"
        )
    refuse_features(problem, package, {
        "gaps in lifetimes": bool(len(problem.gaps)),
        "contiguous chains": bool(problem.contiguous),
    })  # fmt: skip


def refuse_features(problem: Problem, package: str, features: dict[str, bool]) -> None:
    """Refuse a problem that has one of these features; the message names the feature."""
    for feature, present in features.items():
        if present:
            raise UnsupportedProblemError(
                f"{problem.name}: {package} has no notion of {feature}; leave the instance out"
            )


def plain_lifetimes(problem: Problem, package: str, shuffled: int | None = None) -> PlainLifetimes:
    """Return a problem in the form for a package; a seed shuffles the order of the tensors."""
    require_lifetimes(problem, package)
    alignments = np.unique(problem.alignment).tolist()
    refuse_features(problem, package, {
        "several alignments": len(alignments) > 1,
        "pinned tensors": bool((problem.pinned != NOT_PINNED).any()),
    })  # fmt: skip
    alignment = alignments[0] if alignments else 1
    sizes = -(-problem.size // alignment) * alignment
    unit = math.gcd(*sizes.tolist()) or alignment
    tensors = np.flatnonzero(sizes).tolist()
    if shuffled is not None:
        Random(shuffled).shuffle(tensors)
    begun = int(problem.start.min(initial=0))
    return PlainLifetimes(
        problem, tensors, unit,
        (sizes[tensors] // unit).tolist(),
        (problem.start[tensors] - begun).tolist(),
        (problem.end[tensors] - 1 - begun).tolist(),
    )  # fmt: skip
