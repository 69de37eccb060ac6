"""Cases, the rows of a report: one planner on one instance, over all seeds and repetitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from evaluation.study.gaps import NO_GAPS, Gaps, InstanceFacts, facts_of, gaps_of_peak, middle_peak
from evaluation.study.record import OffsetsRecord, Record, RunStatus, Subject

# From the best status to the worst. A case has the worst status of its repetitions.
_FROM_BEST = (
    RunStatus.OPTIMAL, RunStatus.FEASIBLE, RunStatus.INFEASIBLE, RunStatus.UNSUPPORTED,
    RunStatus.NO_PLAN_FOUND, RunStatus.TIMED_OUT, RunStatus.OUT_OF_MEMORY, RunStatus.CRASHED,
    RunStatus.INVALID,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """The runs of one planner, with its parameters and its budget, on one instance."""

    facts: InstanceFacts
    # The planner, with the parameters and the budget in which its runs differ.
    label: str
    # One for each seed and repetition.
    records: Sequence[Record]
    # The worst one.
    status: RunStatus
    # Median in bytes; of two middle peaks the lower. None if any run has no plan.
    peak: int | None
    gaps: Gaps
    # Median processor time of the timed runs; None if no run was timed.
    seconds: float | None

    @property
    def has_plans(self) -> bool:
        """Return True if the runs are plans of offsets; other kinds have a peak, and no gaps."""
        return isinstance(self.records[0], OffsetsRecord)


def cases_of(records: Sequence[Record]) -> list[Case]:
    """Return a case for each instance, planner, parameters and budget, instance by instance."""
    facts = facts_of(records)
    labels = _labels(records)
    grouped: dict[tuple[Subject, str], list[Record]] = {}
    for record, label in zip(records, labels, strict=True):
        grouped.setdefault((record.subject, label), []).append(record)
    order = {subject: place for place, subject in enumerate(facts)}
    cases = [_case(facts[subject], label, found) for (subject, label), found in grouped.items()]
    return sorted(cases, key=lambda case: order[case.facts.subject])


def by_planner(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Return the cases of each label; the labels are in the order of their first appearance."""
    grouped: dict[str, list[Case]] = {}
    for case in cases:
        grouped.setdefault(case.label, []).append(case)
    return grouped


def _case(facts: InstanceFacts, label: str, records: Sequence[Record]) -> Case:
    status = max((record.status for record in records), key=_FROM_BEST.index)
    has_plans = isinstance(records[0], OffsetsRecord)
    peak = middle_peak(records)
    seconds = [
        record.processor_seconds
        for record in records
        if record.timed and record.processor_seconds is not None
    ]
    gaps = NO_GAPS if peak is None or not has_plans else gaps_of_peak(peak, facts)
    return Case(facts, label, records, status, peak, gaps, median(seconds) if seconds else None)


def _labels(records: Sequence[Record]) -> list[str]:
    """Return a label for each record: its planner, and the settings in which its runs differ."""
    settings = [
        {**record.parameters, "budget": _budget(record.budget_seconds)} for record in records
    ]
    values: dict[tuple[str, str], set[object]] = {}
    for record, its in zip(records, settings, strict=True):
        for key, value in its.items():
            values.setdefault((record.planner, key), set()).add(value)
    return [
        ":".join(
            [record.planner]
            + [
                f"{key}={value}"
                for key, value in its.items()
                if len(values[record.planner, key]) > 1
            ]
        )
        for record, its in zip(records, settings, strict=True)
    ]


def _budget(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds:g}s"
