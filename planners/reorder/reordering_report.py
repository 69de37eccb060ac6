"""A reordering in one line for people, and as fields for programs."""

from __future__ import annotations

from typing import TypedDict

from planners.model.plan import Status
from planners.model.problem_fields import MOST_SHOWN_NAME
from planners.reorder.reordering import Reordering
from planners.text.byte_units import both_bytes, exact_bytes
from planners.text.plain_text import one_line


class ReorderingFields(TypedDict):
    """What JSON says of a reordering; docs/reordering.md says what each means."""

    bound: str
    given: int
    reordered: int
    saved: int
    status: str
    least: int
    certificate: str
    seconds: float
    seed: int
    interrupted: bool
    statistics: dict[str, int]


def reordering_record(found: Reordering) -> ReorderingFields:
    """Return the fields of a reordering, every number exact."""
    return {
        "bound": found.bound.name,
        "given": found.given_bound.bytes,
        "reordered": found.bound.bytes,
        "saved": found.saved_bytes,
        "status": found.status.value,
        "least": found.least_bytes,
        "certificate": found.certificate,
        "seconds": found.seconds,
        "seed": found.seed,
        "interrupted": found.interrupted,
        "statistics": dict(found.statistics),
    }


def reordering_text(found: Reordering) -> str:
    """Return the line that says what the order costs."""
    given = found.given_bound.bytes
    share = found.saved_bytes / given if given else 0.0
    proof = (
        f"optimal, proven by {found.certificate}"
        if found.status is Status.OPTIMAL
        else f"feasible; no order is below {exact_bytes(found.least_bytes)}, by {found.certificate}"
    )
    parts = [
        f"{found.bound.name} bound {both_bytes(given)} in the given order, "
        f"{both_bytes(found.bound.bytes)} in the new one",
        f"{both_bytes(found.saved_bytes)} saved ({share:.3%})",
        proof,
        f"{found.seconds:.3f} s",
    ]
    if found.interrupted:
        parts.append("interrupted")
    return f"{one_line(found.given.name, MOST_SHOWN_NAME)}: {'; '.join(parts)}"
