"""The largest value of a parameter with which a program fits, searched under each allocator.

Note: how few traces are enough
-------------------------------
Rationale. A trace takes seconds, a replay milliseconds. All allocators share the traces.

Approach. Memory grows almost linearly in a batch. The search next tries the value at which the
line through two known values meets the limit. It keeps a margin to known values, so that the
interval shrinks from both sides. Every third try is the middle of the interval, so that no
program takes many more traces than a bisection. The search ends when one value fits and the next
does not.

Limits. The search assumes that every value below a fitting value fits as well. It notices a
violation only among the values that it tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor

from gpu_runtime.fitting.rank_fit import AllocatorFit, RankFit
from planners.errors import InstanceError
from planners.text.byte_units import both_bytes

# The largest value that is tried; no training has such a batch.
MOST = 1 << 20
# A parameter is refused if memory does not grow over a range of this factor. Where weights and
# their states are most of the memory, a few more sequences may not be seen.
FLAT = 256
# While no value is known not to fit, the next one is at most so many times the largest that fits.
FURTHEST = 4
MIDDLE_EVERY = 3
# Each try leaves at least one part in MARGIN of the open interval on either side.
MARGIN = 8


@dataclass
class LargestValues:
    """The values that a search has tried so far."""

    parameter: str
    room: int
    # Only multiples of this are tried.
    by: int
    # By value, in the order of the tries.
    tried: dict[int, RankFit] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        return next((fit.labels for fit in self.tried.values()), [])

    def fits(self, label: str) -> dict[int, AllocatorFit]:
        """Return the row of an allocator by value, in ascending order."""
        return {value: self.tried[value].row(label) for value in sorted(self.tried)}

    def least_too_large(self, label: str) -> int | None:
        return next((value for value, row in self.fits(label).items() if not row.fits), None)

    def largest(self, label: str) -> int | None:
        limit = self.least_too_large(label)
        known = self.fits(label).items()
        return max(
            (value for value, row in known if row.fits and (limit is None or value < limit)),
            default=None,
        )

    def is_found(self, label: str) -> bool:
        """Return True if the next value is known not to fit, or is beyond ``MOST``."""
        limit = self.least_too_large(label)
        low = self.largest(label) or 0
        return low + self.by > MOST if limit is None else limit - low <= self.by

    def fitting_above(self, label: str) -> list[int]:
        """Return values that fit though a smaller one does not."""
        limit = self.least_too_large(label) or MOST
        return [value for value, row in self.fits(label).items() if row.fits and value > limit]


def search_largest(
    found: LargestValues,
    labels: Sequence[str],
    start: int,
    check: Callable[[Mapping[str, int]], RankFit],
    fixed: Mapping[str, int] | None = None,
) -> None:
    """Try values until the largest that fits is found for each label.

    `check` gets the value by its parameter, after the `fixed` values of others.
    ``InstanceError`` if memory does not grow with the parameter under any label.
    """
    for label in labels:
        tries = 0
        while not found.tried or not found.is_found(label):
            _require_growth(found)
            value = _next_value(found, label, start, is_middle=tries % MIDDLE_EVERY == 2)
            found.tried[value] = check({**(fixed or {}), found.parameter: value})
            tries += 1


def _require_growth(found: LargestValues) -> None:
    """Refuse a parameter that memory does not depend on, before ever larger values are traced."""
    least, most = min(found.tried, default=0), max(found.tried, default=0)
    if most < FLAT * least or not found.tried:
        return
    small, large = (found.tried[value].rows for value in (least, most))
    if all(high.reserved_peak <= low.reserved_peak for low, high in zip(small, large, strict=True)):
        raise InstanceError(
            f"--vary {found.parameter}: a parameter that memory grows with is needed, found "
            f"{both_bytes(small[0].reserved_peak)} at {least:,} and "
            f"{both_bytes(large[0].reserved_peak)} at {most:,}"
        )


def _next_value(found: LargestValues, label: str, start: int, *, is_middle: bool) -> int:
    """Return an untried value between the largest that fits and the least that does not."""
    by = found.by
    low = (found.largest(label) or 0) // by
    limit = found.least_too_large(label)
    if not found.tried:
        return max(start // by, 1) * by
    above = min(FURTHEST * max(low, 1), MOST // by) + 1 if limit is None else -(-limit // by)
    guess = None if is_middle else _meeting_point(found, label)
    if guess is None:
        further = 2 if len(found.tried) == 1 else FURTHEST
        guess = by * (further * low if limit is None else (low + above) // 2)
    margin = max((above - low) // MARGIN, 1)
    return min(max(guess // by, low + margin), above - margin) * by


def _meeting_point(found: LargestValues, label: str) -> int | None:
    """Return where the line through the two values nearest to the limit meets it."""
    known = [(value, row.reserved_peak) for value, row in found.fits(label).items()]
    known.sort(key=lambda pair: abs(pair[1] - found.room))
    if len(known) < 2:
        return None
    (first, low), (second, high) = known[:2]
    if (high - low) * (second - first) <= 0:
        return None
    return floor(first + (found.room - low) * (second - first) / (high - low))
