"""The slots `NAME-gaps` and `NAME-times`: how near planners come to a proof, and what that takes.

Which planners a table shows, and under which names, stands in the study's own file, at
``[page.proofs.NAME]``; its lines are the instances that any but the first of them was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from evaluation.findings.cost_of_planning import is_of, planning_seconds, values_of
from evaluation.report.cases import Case
from evaluation.report.gap_tables import NOTHING, by_instance, cell
from evaluation.report.slots import PageMaterial, slot
from evaluation.study.gaps import ContradictionError, InstanceFacts, gaps_of_peak, has_plan
from planners.compare.report import percent
from planners.errors import GaplessError
from planners.text.byte_units import exact_bytes, three_digits
from planners.text.table import Row, Table, columns_of


@dataclass(frozen=True)
class Contest:
    """What several planners made of one instance, by the names under which they are shown."""

    facts: InstanceFacts
    by_name: Mapping[str, Case]

    def worst_peak(self, name: str) -> int | None:
        """Return the highest peak over all runs; None where one of them has no valid plan."""
        return worst_peak(self.by_name[name])

    def is_proven(self, name: str) -> bool:
        """Return whether every run ended with a plan that some bound proves best."""
        return self.worst_peak(name) == self.facts.lower_bound

    def seconds(self, name: str) -> list[float]:
        """Return what each run of a planner took; nothing of one that was not run."""
        case = self.by_name.get(name)
        return [] if case is None else values_of(case.records, planning_seconds)


def worst_peak(case: Case) -> int | None:
    """Return the highest peak over all runs; None where one of them has no valid plan."""
    peaks = [record.peak for record in case.records if has_plan(record)]
    known = [peak for peak in peaks if peak is not None]
    return max(known) if len(known) == len(case.records) else None


@slot("file-gaps")
def _file_gaps(material: PageMaterial) -> str:
    return _gaps(material, "files")


@slot("file-times")
def _file_times(material: PageMaterial) -> str:
    return _times(material, "files")


@slot("graph-gaps")
def _graph_gaps(material: PageMaterial) -> str:
    return _gaps(material, "graphs")


@slot("graph-times")
def _graph_times(material: PageMaterial) -> str:
    return _times(material, "graphs")


def contests_of(cases: Sequence[Case], planners: Mapping[str, str]) -> list[Contest]:
    """Return the instances that any but the first of some planners was given."""
    contests = []
    for its in by_instance(cases).values():
        by_name = {
            name: case
            for name, planner in planners.items()
            for case in its
            if is_of(case.records[0], planner)
        }
        if by_name.keys() - {next(iter(planners))}:
            contests.append(Contest(its[0].facts, by_name))
    return contests


def require_not_above_greedy(material: PageMaterial) -> None:
    """Make sure that no planner that searches is above a greedy one, whose plan it could take."""
    words = material.words.get("searches", {})
    for its in by_instance(material.cases).values():
        greedy = [worst_peak(case) for case in its if case.records[0].planner == words.get("above")]
        for case in its:
            peak = worst_peak(case)
            if case.records[0].planner not in words.get("planners", ()) or peak is None:
                continue
            if greedy and greedy[0] is not None and peak > greedy[0]:
                raise ContradictionError(
                    f"instance {case.facts.instance}: a planner that searches is never above a "
                    f"greedy one, found a peak of {peak:,} of {case.label}, where "
                    f"{words['above']} has {greedy[0]:,}"
                )


def _gaps(material: PageMaterial, table: str) -> str:
    planners, contests = _planners(material, table), _contests(material, table)
    if not contests:
        return ""
    first = next(iter(planners))
    rows = [
        Row((
            cell(each.facts.instance), f"{each.facts.tensors:,}",
            f"{exact_bytes(each.facts.lower_bound)} ({each.facts.certificate})",
            _found_by(each.by_name.get(first)),
            *(_gap(each, name) for name in planners),
        ))
        for each in contests
    ]  # fmt: skip
    proven = []
    for name in planners:
        its = [each for each in contests if name in each.by_name]
        proven.append(f"{sum(each.is_proven(name) for each in its)} of {len(its)}")
    rows.append(Row(("proven best", "", "", "", *proven)))
    headings = ("instance", "tensors", "bound (bytes)", f"{first}: by", *planners)
    return Table(columns_of(*headings), rows).markdown()


def _times(material: PageMaterial, table: str) -> str:
    planners, contests = _planners(material, table), _contests(material, table)
    if not contests:
        return ""
    first, *others = planners
    headings = ["instance", f"{first} (s)"]
    for name in others:
        headings += [f"{name} (s)", f"to {first}"]
    rows = []
    for each in contests:
        cells = [cell(each.facts.instance), _took(each.seconds(first))]
        for name in others:
            cells += [_took(each.seconds(name)), _ratio(each.seconds(name), each.seconds(first))]
        rows.append(Row(cells))
    return Table(columns_of(*headings), rows).markdown()


def _planners(material: PageMaterial, table: str) -> Mapping[str, str]:
    planners: Mapping[str, str] = material.words.get("proofs", {}).get(table, {})
    if not planners:
        raise GaplessError(
            f"study {material.name}: [page.proofs.{table}] needs planners by the names that the "
            f"table shows, found none"
        )
    return planners


def _contests(material: PageMaterial, table: str) -> list[Contest]:
    require_not_above_greedy(material)
    return contests_of(material.cases, _planners(material, table))


def _found_by(case: Case | None) -> str:
    return (
        NOTHING
        if case is None
        else cell(str(case.records[-1].statistics.get("found_by") or NOTHING))
    )


def _gap(contest: Contest, name: str) -> str:
    if name not in contest.by_name:
        return NOTHING
    peak = contest.worst_peak(name)
    if peak is None:
        return contest.by_name[name].status.value
    return percent(gaps_of_peak(peak, contest.facts).to_bound)


def _took(seconds: Sequence[float]) -> str:
    """Return the median and, in brackets, the worst."""
    return f"{_shown(median(seconds))} ({_shown(max(seconds))})" if seconds else NOTHING


def _shown(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 10 else three_digits(seconds)


def _ratio(theirs: Sequence[float], ours: Sequence[float]) -> str:
    return f"{median(theirs) / median(ours):.1f}x" if theirs and ours and median(ours) else NOTHING
