"""What follows from an instance alone: digest, counts, naive sum, bounds."""

from __future__ import annotations

import math

from instances.catalogue.catalogue_entry import Facts
from planners.files.digest import problem_digest
from planners.model.bounds import bounds_of
from planners.model.problem import Problem, Scalar


def facts_of(problem: Problem, seconds: float = math.inf) -> Facts:
    """Derive the facts of an instance; a bound that takes longer than the seconds is left out."""
    return Facts(
        digest=problem_digest(problem),
        tensors=problem.tensor_count,
        streams=problem.stream_count,
        chains=len(problem.contiguous),
        naive=problem.naive_bytes,
        bounds={bound.name: bound.bytes for bound in bounds_of(problem, seconds)},
        capacity=problem.capacity,
        optimum=_whole(problem.origin.get("optimum")),
        proof=str(problem.origin.get("proof", "")),
    )


def _whole(value: Scalar | None) -> int | None:
    return value if type(value) is int else None
