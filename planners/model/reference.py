"""The reference: the peak that the allocator of a recorded run had reserved, to compare plans with.

The reference is stored in the origin of a problem, so that an instance file keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planners.errors import InstanceError
from planners.model.problem import Problem, Scalar
from planners.text.plain_text import shown

ALLOCATOR, PEAK, EXACT = "reserved_by", "peak_reserved", "peak_reserved_is_exact"


@dataclass(frozen=True)
class Reference:
    """The bytes that an allocator had reserved at the peak of a recorded run."""

    allocator: str
    reserved: int
    # False if more may have been reserved than the recording shows.
    exact: bool

    @property
    def label(self) -> str:
        """The label of the reference in a column of planner names."""
        return f"{self.allocator} reserved{'' if self.exact else ', at least'}"

    def as_origin(self) -> dict[str, Scalar]:
        """Return the entries of a problem's origin that store the reference."""
        return {ALLOCATOR: self.allocator, PEAK: self.reserved, EXACT: self.exact}


def reference_of(problem: Problem) -> Reference | None:
    """Return the reference in a problem's origin, or None."""
    origin = problem.origin
    if PEAK not in origin:
        return None
    reserved = origin[PEAK]
    allocator = origin.get(ALLOCATOR, "allocator")
    exact = origin.get(EXACT, True)
    if type(reserved) is not int or reserved < 0:
        raise InstanceError(
            f"field origin.{PEAK}: whole bytes of at least 0 are needed, found {shown(reserved)}"
        )
    if not isinstance(allocator, str) or not allocator.isprintable():
        raise InstanceError(f"field origin.{ALLOCATOR}: a name is needed, found {shown(allocator)}")
    if not isinstance(exact, bool):
        raise InstanceError(f"field origin.{EXACT}: true or false is needed, found {shown(exact)}")
    return Reference(allocator, reserved, exact)


def without_reference(origin: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the origin for a problem that leaves out a part of the run's memory."""
    return {key: value for key, value in origin.items() if key not in (ALLOCATOR, PEAK, EXACT)}
