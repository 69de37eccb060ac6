"""The tables of a report: planners, gaps by instance and planner, what is known of an instance.

Records that cannot all be true stop the page before, see :mod:`evaluation.study.gaps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from statistics import mean

from evaluation.plots.planner_figures import seconds_text
from evaluation.report.cases import Case, by_planner
from evaluation.study.gaps import Gaps, InstanceFacts
from evaluation.study.record import ANSWERED, FAILED, OnlineRecord, Record, RunStatus
from planners.compare.report import percent
from planners.text.byte_units import exact_bytes, human_bytes
from planners.text.plain_text import one_line
from planners.text.table import Column, Row, Table, columns_of

NOTHING = "-"
MOST_REASON_CHARACTERS = 160
GAP_HEADINGS = ("gap to bound", "gap to optimum", "gap to best")


def planner_table(cases: Sequence[Case]) -> Table:
    """Return a line a planner: how often it is best, proven or without a plan, and its gaps."""
    lines = []
    for label, its in by_planner(case for case in cases if case.has_plans).items():
        planned = [case for case in its if case.peak is not None]
        best = [case for case in planned if case.gaps.to_best == 0]
        proven = [case for case in its if case.status is RunStatus.OPTIMAL]
        gaps = [_mean_and_most(column) for column in _columns(case.gaps for case in planned)]
        counts = (len(its), len(planned), len(best), len(proven))
        # Who has no plan where it is hard has small gaps elsewhere.
        rank = (len(planned) < len(its), _mean_to_best(planned))
        lines.append((rank, (cell(label), *map(str, counts), *gaps)))
    lines.sort(key=lambda line: line[0])
    rows = [Row.best(cells) if rank == lines[0][0] else Row(cells) for rank, cells in lines]
    headings = [f"{heading.removeprefix('gap ')}, mean (most)" for heading in GAP_HEADINGS]
    columns = columns_of("planner", "instances", "plans", "best", "optimal", *headings)
    return Table(columns, rows)


def gap_table(cases: Sequence[Case]) -> Table:
    """Return a line for each instance and planner, the best planner of an instance first."""
    columns = (
        Column("instance", is_left=True), Column("tensors"), Column("planner", is_left=True),
        Column("status", is_left=True), Column("peak, bytes"),
        *map(Column, GAP_HEADINGS), Column("time"),
    )  # fmt: skip
    rows = []
    for instance in by_instance(cases).values():
        for case in sorted(instance, key=_peak_or_last):
            facts = case.facts
            cells = (
                cell(facts.instance), f"{facts.tensors:,}", cell(case.label), case.status.value,
                _peak_cells(case.peak)[1], *gap_cells(case.gaps), time_cell(case),
            )  # fmt: skip
            rows.append(Row(cells))
    return Table(columns, rows)


def instance_table(cases: Sequence[Case]) -> Table:
    """Return a line for each instance whose best plan is not proven to be optimal.

    It has the best bound, the best plan and the gap between them; without a gap it stands first.
    """
    its_open = [its[0].facts for its in by_instance(cases).values() if not is_solved(its)]
    order = sorted(its_open, key=lambda its: -(inf if (gap := _left_open(its)) is None else gap))
    rows = [
        Row((
            cell(its.instance), f"{its.tensors:,}", its.certificate or NOTHING,
            exact_bytes(its.lower_bound) if its.lower_bound else NOTHING,
            cell(its.best_planner or NOTHING),
            NOTHING if its.best_known is None else exact_bytes(its.best_known),
            percent(_left_open(its)),
        ))
        for its in order
    ]  # fmt: skip
    columns = (
        Column("instance", is_left=True), Column("tensors"), Column("best bound", is_left=True),
        Column("bytes"), Column("best plan", is_left=True), Column("bytes"), Column("gap"),
    )  # fmt: skip
    return Table(columns, rows)


def worst_table(cases: Sequence[Case]) -> Table:
    """Return the line of the gap table in which each planner is farthest above the best known."""
    worst = [
        max(its, key=lambda case: case.gaps.to_best or 0.0) for its in by_planner(cases).values()
    ]
    found = sorted(worst, key=lambda case: -(case.gaps.to_best or 0.0))
    rows = [
        Row((
            cell(case.label), cell(case.facts.instance), *_peak_cells(case.peak),
            *gap_cells(case.gaps),
        ))
        for case in found
        if case.gaps.to_best
    ]  # fmt: skip
    columns = columns_of("planner", "instance", "peak", "bytes", *GAP_HEADINGS, left=2)
    return Table(columns, rows)


def failure_table(records: Iterable[Record]) -> Table:
    """Return a line for each planner, ending and reason without a plan, and how often it came."""
    counts: dict[tuple[str, str, str], int] = {}
    for record in records:
        if record.status not in ANSWERED:
            reason = one_line(record.reason or "", MOST_REASON_CHARACTERS)
            # Broken rules first.
            status = record.status.value
            counts[record.planner, status, reason] = (
                counts.get((record.planner, status, reason), 0) + 1
            )
    failed = {status.value for status in FAILED}
    order = sorted(counts.items(), key=lambda entry: (entry[0][1] not in failed, -entry[1]))
    rows = [
        Row((cell(planner), status, str(count), cell(reason)))
        for (planner, status, reason), count in order
    ]
    columns = (
        Column("planner", is_left=True), Column("status", is_left=True), Column("runs"),
        Column("reason", is_left=True),
    )  # fmt: skip
    return Table(columns, rows)


def online_table(cases: Sequence[Case]) -> Table:
    """Return a line for each instance and online allocator: what it reserves, and its efficiency.

    Beside it stands the best plan, for what there is to be saved.
    """
    rows = []
    for case in cases:
        first = case.records[0]
        allocated = first.allocated if isinstance(first, OnlineRecord) else None
        if case.peak and allocated is not None:
            best = case.facts.best_known
            rows.append(
                Row((
                    cell(case.facts.instance), cell(case.label), human_bytes(case.peak),
                    exact_bytes(case.peak), f"{allocated / case.peak:.1%}".replace("%", " %"),
                    NOTHING if best is None else human_bytes(best), time_cell(case),
                ))
            )  # fmt: skip
    headings = ("reserved", "bytes", "efficiency", "best plan", "time")
    return Table(columns_of("instance", "online allocator", *headings, left=2), rows)


def is_solved(cases: Sequence[Case]) -> bool:
    """Return whether the optimum of one instance is proven, or that it has no plan."""
    has_none = any(case.status is RunStatus.INFEASIBLE for case in cases)
    return has_none or cases[0].facts.optimum is not None


def by_instance(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Return the cases of plans by the digest of their instance."""
    grouped: dict[str, list[Case]] = {}
    for case in cases:
        if case.has_plans:
            grouped.setdefault(case.facts.digest, []).append(case)
    return grouped


def gap_cells(gaps: Gaps) -> tuple[str, str, str]:
    """Return the three gaps as they stand in a table, never mixed."""
    return percent(gaps.to_bound), percent(gaps.to_optimum), percent(gaps.to_best)


def cell(text: str) -> str:
    """Return text from outside as Markdown has it in a table."""
    plain = one_line(text)
    for mark in "\\|*<[`":
        plain = plain.replace(mark, f"\\{mark}")
    return plain


def time_cell(case: Case) -> str:
    """Return the time of a case; nothing where no run of it was timed."""
    return NOTHING if case.seconds is None else seconds_text(case.seconds)


def _peak_cells(peak: int | None) -> tuple[str, str]:
    return (NOTHING, NOTHING) if peak is None else (human_bytes(peak), exact_bytes(peak))


def _peak_or_last(case: Case) -> tuple[bool, int]:
    return case.peak is None, case.peak or 0


def _left_open(facts: InstanceFacts) -> float | None:
    if facts.best_known is None or not facts.lower_bound:
        return None
    return facts.best_known / facts.lower_bound - 1


def _columns(gaps: Iterable[Gaps]) -> tuple[list[float], list[float], list[float]]:
    columns: tuple[list[float], list[float], list[float]] = ([], [], [])
    for its in gaps:
        for column, gap in zip(columns, (its.to_bound, its.to_optimum, its.to_best), strict=True):
            if gap is not None:
                column.append(gap)
    return columns


def _mean_and_most(gaps: Sequence[float]) -> str:
    return f"{percent(mean(gaps))} ({percent(max(gaps))})" if gaps else NOTHING


def _mean_to_best(cases: Sequence[Case]) -> float:
    gaps = [case.gaps.to_best for case in cases if case.gaps.to_best is not None]
    return mean(gaps) if gaps else float("inf")
