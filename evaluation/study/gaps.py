"""The three gaps of a run: to the bound, to the proven optimum, to the best known peak.

Note: the references of gaps
----------------------------
Rationale. "3 % above optimal" may mean three things, and a table that mixes them says nothing.

Approach. The facts of a problem come from all of its records, of any planner, study or machine,
and from the catalogue of instances: a bound or a plan that holds once holds always. So instances
that differ in name or capacity, and have one digest, share bounds and plans; they remain instances
of their own. Each gap of a run follows from these facts, or is None.

Limits. Online allocators place nothing at offsets. The bounds do not hold for their reserved bytes,
which are no plan either, so runs of online allocators have no gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median_low

from evaluation.study.record import (
    ANSWERED,
    InstanceRecord,
    OffsetsRecord,
    Record,
    RunStatus,
    Subject,
)
from instances.catalogue.catalogue_entry import Best
from instances.catalogue.catalogue_file import read_catalogue
from planners.errors import GaplessError
from planners.model.plan import gap_above

# Characters of a digest that a label shows: "sha256:" and 8 hexadecimal digits. They tell problems
# with the same name apart.
SHOWN_DIGEST = 15
CATALOGUED = "the catalogue of instances"


class ContradictionError(GaplessError):
    """Records of one instance contradict each other."""


@dataclass(frozen=True)
class InstanceFacts:
    """The facts of an instance, from all of its records and the catalogue."""

    # A name that no other instance has; and the name, digest and capacity of its records.
    instance: str
    subject: Subject
    tensors: int
    # Its generator; None for a file.
    family: str | None
    # The best proven bound in bytes, and the name of its proof; 0 and "" without one.
    lower_bound: int
    certificate: str
    # Bytes of the proven smallest peak; None without a proof.
    optimum: int | None
    # Bytes of the smallest peak of any valid plan, and the first planner that reached it.
    best_known: int | None
    best_planner: str | None

    @property
    def digest(self) -> str:
        """The digest of its problem."""
        return self.subject[1]


@dataclass(frozen=True)
class Gaps:
    """The gaps of a peak to the best lower bound, the proven optimum and the smallest known peak.

    Each is None if its reference is unknown, or is 0 and the peak is not.
    """

    to_bound: float | None
    to_optimum: float | None
    to_best: float | None


NO_GAPS = Gaps(None, None, None)


def facts_of(records: Iterable[Record]) -> dict[Subject, InstanceFacts]:
    """Return the best bound, best plan and optimum of each instance, from all records together."""
    by_digest: dict[str, list[Record]] = {}
    subjects: dict[Subject, Record] = {}
    for record in records:
        by_digest.setdefault(record.instance_digest, []).append(record)
        subjects.setdefault(record.subject, record)
    known = {digest: _facts(found) for digest, found in by_digest.items()}
    names = Counter(name for name, _, _ in subjects)
    facts = {}
    for subject, first in subjects.items():
        name, digest, capacity = subject
        if names[name] > 1:
            within = "" if capacity is None else f", within {capacity:,}"
            name = f"{name} ({digest[:SHOWN_DIGEST]}{within})"
        facts[subject] = replace(
            known[digest], instance=name, subject=subject, family=getattr(first, "family", None)
        )
    return facts


def has_plan(record: Record) -> bool:
    """Return True if a record has a valid plan."""
    return (
        isinstance(record, OffsetsRecord) and record.status in ANSWERED and record.peak is not None
    )


def middle_peak(records: Sequence[Record]) -> int | None:
    """Return the lower median of the peaks of repetitions; None if some has no plan."""
    peaks = [
        its.peak
        for its in records
        if its.peak is not None and (has_plan(its) or not isinstance(its, OffsetsRecord))
    ]
    return median_low(peaks) if len(peaks) == len(records) else None


def gaps_of(record: Record, facts: InstanceFacts) -> Gaps:
    """Return the gaps of a run, each ``peak / reference - 1``; all are None if it has no plan.

    The facts are those of its instance, from :func:`facts_of`.
    """
    if not has_plan(record):
        return NO_GAPS
    return gaps_of_peak(record.peak or 0, facts)


def gaps_of_peak(peak: int, facts: InstanceFacts) -> Gaps:
    """Return the gaps of a peak."""
    return Gaps(
        gap_above(peak, facts.lower_bound or None),
        gap_above(peak, facts.optimum),
        gap_above(peak, facts.best_known),
    )


def _facts(records: Sequence[Record]) -> InstanceFacts:
    """Return the facts of a problem from all of its records, as an instance of the first one."""
    first = records[0]
    lower_bound, certificate, proved_in = _best_bound(records)
    best_known, best_planner, found_in = _best_plan(records)
    if best_known is not None and best_known < lower_bound:
        raise ContradictionError(
            f"instance {first.instance}: no plan is below a lower bound, found a peak of "
            f"{best_known:,} in {found_in}, and a bound of {lower_bound:,} by "
            f"{certificate} in {proved_in}"
        )
    optimum = best_known if best_known == lower_bound else None
    return InstanceFacts(
        first.instance, first.subject, getattr(first, "tensors", 0), getattr(first, "family", None),
        lower_bound, certificate, optimum, best_known, best_planner,
    )  # fmt: skip


@cache
def _catalogued() -> Mapping[str, Best]:
    """Return the best plans and bounds of the catalogue, by the digests of their problems."""
    return {entry.facts.digest: entry.best for entry in read_catalogue().values()}


def _best_plan(records: Sequence[Record]) -> tuple[int | None, str | None, str]:
    known: list[tuple[int, str, str]] = [
        (record.peak or 0, record.planner, f"{record.study}: {record.run}")
        for record in records
        if has_plan(record)
    ]
    entry = _catalogued().get(records[0].instance_digest)
    if entry is not None:
        known.append((entry.peak, entry.planner, CATALOGUED))
    # The first of equal plans gives the name.
    return min(known, key=lambda plan: plan[0], default=(None, None, ""))


def _best_bound(records: Sequence[Record]) -> tuple[int, str, str]:
    known = [
        (bytes_, name, f"{record.study}: {record.run}")
        for record in records
        # A bound by a refuted planner does not count, and bounds hold for plans alone.
        if isinstance(record, OffsetsRecord) and record.status is not RunStatus.INVALID
        for name, bytes_ in [*record.bounds.items(), *_own_bound(record)]
    ]
    entry = _catalogued().get(records[0].instance_digest)
    if entry is not None:
        known.append((entry.lower_bound, entry.certificate, CATALOGUED))
    # The first of equal bounds gives the name.
    return max(known, key=lambda bound: bound[0], default=(0, "", ""))


def _own_bound(record: InstanceRecord) -> list[tuple[str, int]]:
    if record.lower_bound is None:
        return []
    return [(record.certificate or record.planner, record.lower_bound)]
