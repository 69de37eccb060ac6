"""Our exact planner beside the peer's on the same question: answers, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evaluation.findings.exact_runs import (
    NO_ANSWER,
    ExactRuns,
    Question,
    peers_by_threads,
    runs_by_question,
    time_or_why_not,
)
from evaluation.report.figure_texts import milliseconds
from evaluation.report.gap_tables import cell
from evaluation.report.slots import PageMaterial, slot
from evaluation.study.record import ANSWERED, Record, RunStatus
from planners.text.byte_units import counted
from planners.text.table import Row, Table, columns_of


@dataclass(frozen=True)
class Duel:
    """Both sides on one question."""

    question: Question
    ours: ExactRuns
    # One for each number of threads; None where they were not asked.
    theirs: tuple[ExactRuns | None, ...]

    @property
    def facts(self) -> Record:
        """A record, for what it says of the instance."""
        return self.ours.records[0]


@slot("fits-beside-supermalloc")
def _fits(material: PageMaterial) -> str:
    threads, duels = _duels(material.records, with_capacity=True)
    rows = [Row(_fit_cells(duel)) for duel in duels]
    if rows:
        rows.append(Row(_total_cells("all", 4, duels)))
    headings = ("instance", "tensors", "lifetime bound, bytes", "capacity, bytes", "answer")
    return _markdown((*headings, *_cost_headings(threads)), rows)


@slot("smallest-peaks-beside-supermalloc")
def _smallest_peaks(material: PageMaterial) -> str:
    threads, duels = _duels(material.records, with_capacity=False)
    rows = [Row(_peak_cells(duel)) for duel in duels]
    proven = [duel for duel in duels if duel.ours.settled]
    if proven:
        rows.append(Row(_total_cells(f"{len(proven)} proven", 2 + len(threads), proven)))
    answers = ["ours, bytes", *(f"{_on_threads(count)}, bytes" for count in threads)]
    headings = ("instance", "lifetime bound, bytes", *answers, *_cost_headings(threads))
    return _markdown(headings, rows)


def _duels(records: Sequence[Record], *, with_capacity: bool) -> tuple[list[int], list[Duel]]:
    """Return the numbers of threads of the peer, and the duels on one kind of question."""
    theirs = peers_by_threads(records)
    duels = [
        Duel(question, runs, tuple(found.get(question) for found in theirs.values()))
        for question, runs in runs_by_question(records).items()
        if (question.capacity is not None) is with_capacity
        and not question.variation
        and not question.rule_left_out
    ]
    return list(theirs), duels


def _on_threads(count: int) -> str:
    return f"SuperMalloc on {counted(count, 'thread')}"


def _cost_headings(threads: Iterable[int]) -> list[str]:
    theirs = [[f"{_on_threads(count)}, ms", "worst, ms", "ratio"] for count in threads]
    return ["ours, ms", "worst, ms", *(heading for group in theirs for heading in group)]


def _fit_cells(duel: Duel) -> list[str]:
    return [
        cell(duel.question.instance),
        f"{duel.facts.tensors:,}",
        f"{duel.facts.bounds['lifetime']:,}",
        f"{duel.question.capacity:,}",
        " or ".join(sorted({_answer(record) for record in duel.ours.records})),
        *_costs(duel),
    ]


def _answer(record: Record) -> str:
    if record.status is RunStatus.INVALID:
        return "invalid"
    if record.status is RunStatus.INFEASIBLE:
        return "does not fit"
    return "fits" if record.status in ANSWERED else NO_ANSWER


def _peak_cells(duel: Duel) -> list[str]:
    return [
        cell(duel.question.instance),
        f"{duel.facts.bounds['lifetime']:,}",
        *(NO_ANSWER if runs is None else _peak(runs) for runs in (duel.ours, *duel.theirs)),
        *_costs(duel),
    ]


def _peak(runs: ExactRuns) -> str:
    """Return the proven peak, or the widest interval that is left."""
    if runs.broken is not None:
        return runs.broken.value.replace("_", " ")
    peaks = [record.peak for record in runs.records if record.peak is not None]
    highest = f"{max(peaks):,}" if len(peaks) == len(runs.records) else NO_ANSWER
    if runs.settled:
        return f"{highest} proven"
    bound = min(record.lower_bound or 0 for record in runs.records)
    settled = runs.settled_count
    proven = f", {settled} of {len(runs.records)} proven" if settled else ""
    return f"[{bound:,}, {highest}]{proven}"


def _costs(duel: Duel) -> list[str]:
    its = (duel.ours, *duel.theirs)
    least = min((runs.seconds for runs in its if runs is not None and runs.settled), default=None)
    cells = _cost_cells(duel.ours, least)
    for runs in duel.theirs:
        cells += [*_cost_cells(runs, least), _ratio([runs], [duel.ours])]
    return cells


def _cost_cells(runs: ExactRuns | None, least: float | None) -> list[str]:
    if runs is None:
        return [NO_ANSWER, NO_ANSWER]
    return [
        time_or_why_not(runs, milliseconds(runs.seconds), best=runs.seconds == least),
        milliseconds(runs.worst_seconds) if runs.settled else NO_ANSWER,
    ]


def _total_cells(name: str, blanks: int, duels: Sequence[Duel]) -> list[str]:
    ours = [duel.ours for duel in duels]
    cells = [name, *[""] * blanks, *_sums(ours)]
    for theirs in zip(*(duel.theirs for duel in duels), strict=True):
        cells += [*_sums(theirs), _ratio(theirs, ours)]
    return cells


def _sums(runs: Sequence[ExactRuns | None]) -> list[str]:
    known = _that_count(runs)
    if known is None:
        return [NO_ANSWER, NO_ANSWER]
    more = "" if all(its.settled for its in known) else ">"
    sums = sum(its.seconds for its in known), sum(its.worst_seconds for its in known)
    return [f"{more}{milliseconds(seconds)}" for seconds in sums]


def _ratio(theirs: Sequence[ExactRuns | None], ours: Sequence[ExactRuns | None]) -> str:
    """Return how many times our time theirs is; a time that was over is a bound."""
    known = _that_count(theirs), _that_count(ours)
    if known[0] is None or known[1] is None:
        return NO_ANSWER
    their_seconds, our_seconds = (sum(its.seconds for its in side) for side in known if side)
    match [all(its.settled for its in side) for side in known if side]:
        case [False, False]:
            return NO_ANSWER
        case [False, True]:
            sign = ">"
        case [True, False]:
            sign = "<"
        case _:
            sign = ""
    return f"{sign}{their_seconds / our_seconds:,.1f}x" if our_seconds else NO_ANSWER


def _that_count(runs: Sequence[ExactRuns | None]) -> list[ExactRuns] | None:
    """Return the runs, where all were made and none broke a rule."""
    known = [its for its in runs if its is not None and its.broken is None]
    return known if len(known) == len(runs) else None


def _markdown(headings: Sequence[str], rows: Sequence[Row]) -> str:
    return Table(columns_of(*headings), rows).markdown() if rows else ""
