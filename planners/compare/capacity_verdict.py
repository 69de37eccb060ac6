"""The verdict on one question: does a problem fit its capacity?"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from planners.compare.comparison import Comparison
from planners.model.plan import Status
from planners.text.byte_units import both_bytes


class Answer(enum.Enum):
    """What several planners together say of a capacity."""

    FITS = "fits"
    DOES_NOT_FIT = "does_not_fit"
    NOT_KNOWN = "not_known"


@dataclass(frozen=True)
class Verdict:
    """An answer, and what it stands on."""

    answer: Answer
    # The planner whose plan shows that it fits, or the certificate that proves that it does not;
    # empty where nothing is known.
    by: str
    # The peak, the proof, or what is missing, in words.
    because: str


def verdict_of(comparison: Comparison) -> Verdict | None:
    """Return whether a plan fits, as far as a comparison knows."""
    capacity = comparison.problem.capacity
    if capacity is None:
        return None
    best = comparison.best
    if best is not None:
        assert best.result.peak is not None
        return Verdict(Answer.FITS, best.label, f"peak {both_bytes(best.result.peak)}")
    bound, certificate = comparison.best_bound
    if bound > capacity:
        return Verdict(Answer.DOES_NOT_FIT, certificate, f"at least {both_bytes(bound)} are needed")
    for row in comparison.rows:
        if row.result.status is Status.INFEASIBLE:
            return Verdict(Answer.DOES_NOT_FIT, row.result.certificate, row.result.reason)
    peaks = [row.result.peak for row in comparison.rows if row.result.valid]
    least = min((peak for peak in peaks if peak is not None), default=None)
    found = "no plan was found" if least is None else f"the best plan needs {both_bytes(least)}"
    proven = f"no more than {both_bytes(bound)} is proven to be needed"
    return Verdict(Answer.NOT_KNOWN, "", f"{found}, and {proven}")
