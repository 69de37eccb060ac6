"""Planners of production compilers against the proven optimum: by instance, and by planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from evaluation.findings.cost_of_planning import is_of
from evaluation.findings.studied_instances import StudiedInstance, by_family, studied_instances
from evaluation.report.cases import Case
from evaluation.report.gap_tables import NOTHING, cell
from evaluation.report.slots import PageMaterial, markdown_of, slot
from evaluation.study.gaps import gaps_of_peak
from planners.errors import GaplessError
from planners.text.table import Column, Row, Table, columns_of


@dataclass(frozen=True)
class Sides:
    """The planners that a line an instance shows, with the settings that tell them apart."""

    theirs: str
    # The same with tensors in other orders, a seed each.
    reordered: str
    ours: str


@slot("production-by-instance")
def _production_by_instance(material: PageMaterial) -> str:
    words = material.words.get("production", {})
    known = {key: str(words[key]) for key in ("theirs", "reordered", "ours") if key in words}
    if len(known) < 3:
        raise GaplessError(
            f"study {material.name}: [page.production] needs `theirs`, `reordered` and `ours`, "
            f"found {', '.join(known) or 'nothing'}"
        )
    sides = Sides(**known)
    tables = [
        f"### {cell(family)}\n\n{markdown_of(table)}"
        for family, its in by_family(studied_instances(material)).items()
        if (table := instance_table(its, sides)).rows
    ]
    return "\n\n".join(tables)


@slot("production-planners")
def _production_planners(material: PageMaterial) -> str:
    tables = [
        f"### {cell(family)}\n\n{markdown_of(planner_table(its))}"
        for family, its in by_family(studied_instances(material)).items()
    ]
    return "\n\n".join(tables)


def instance_table(instances: Sequence[StudiedInstance], sides: Sides) -> Table:
    """Return a line for each instance that all sides planned, the widest gap of theirs first."""
    lines = []
    for its in instances:
        theirs, reordered, ours = (
            next((case for case in its.cases if is_of(case.records[0], planner)), None)
            for planner in (sides.theirs, sides.reordered, sides.ours)
        )
        if theirs is None or reordered is None or ours is None or theirs.peak is None:
            continue
        gap = its.gaps(theirs).to_optimum
        cells = (
            cell(its.facts.instance), f"{its.facts.tensors:,}", f"{theirs.peak:,}",
            *_least_and_most(reordered), _bytes(ours.peak), _bytes(its.facts.lower_bound or None),
            its.facts.certificate or NOTHING, above(gap), *_least_and_most_above(its, reordered),
        )  # fmt: skip
        lines.append((-(gap or 0.0), cells))
    headings = (
        "tensors", "greedy (B)", "least (B)", "most (B)", "ours (B)", "bound (B)", "proven by",
        "greedy above", "least above", "most above",
    )  # fmt: skip
    columns = tuple(
        Column(heading, is_left=heading in ("instance", "proven by"))
        for heading in ("instance", *headings)
    )
    return Table(columns, [Row(cells) for _, cells in sorted(lines)])


def planner_table(instances: Sequence[StudiedInstance]) -> Table:
    """Return a line a planner: the share at the proven optimum, and how far it is above."""
    gaps: dict[str, list[tuple[float, str]]] = {}
    asked: dict[str, int] = {}
    for its in instances:
        for case in its.cases:
            asked[case.label] = asked.get(case.label, 0) + 1
            its_gaps = gaps.setdefault(case.label, [])
            gap = its.gaps(case).to_optimum
            if gap is not None:
                its_gaps.append((gap, its.facts.instance))
    lines = [_planner_line(label, gaps[label], asked[label]) for label in asked]
    lines.sort()
    headings = ("instances", "plans", "at the optimum", "share", "above, median", "worst", "on")
    columns = (*columns_of("planner", *headings[:-1]), Column(headings[-1], is_left=True))
    best = min((rank for rank, _ in lines), default=None)
    rows = [Row.best(cells) if rank == best else Row(cells) for rank, cells in lines]
    return Table(columns, rows)


def above(gap: float | None) -> str:
    """Return a gap in per cent with one decimal; what is above 0 never shows as 0."""
    if gap is None:
        return NOTHING
    return "<0.1 %" if 0 < gap < 0.0005 else "0 %" if gap == 0 else f"{100 * gap:,.1f} %"


def _planner_line(
    label: str, gaps: Sequence[tuple[float, str]], asked: int
) -> tuple[tuple[float, float, float], tuple[str, ...]]:
    planned = len(gaps)
    at_optimum = sum(gap == 0 for gap, _ in gaps)
    if not gaps:
        cells = (cell(label), str(asked), "0", *[NOTHING] * 5)
        return (asked, 0.0, 0.0), cells
    worst, on = max(gaps, key=lambda each: each[0])
    middle = median(gap for gap, _ in gaps)
    cells = (
        cell(label), str(asked), str(planned), str(at_optimum),
        f"{100 * at_optimum / planned:.0f} %", above(middle), above(worst),
        cell(on) if worst else NOTHING,
    )  # fmt: skip
    # Who has no plan where it is hard has small gaps elsewhere.
    return (asked - planned, -at_optimum / planned, middle), cells


def _least_and_most(case: Case) -> tuple[str, str]:
    peaks = _peaks(case)
    return (_bytes(min(peaks)), _bytes(max(peaks))) if peaks else (NOTHING, NOTHING)


def _least_and_most_above(its: StudiedInstance, case: Case) -> tuple[str, str]:
    peaks = _peaks(case)
    if not peaks:
        return NOTHING, NOTHING
    least, most = (gaps_of_peak(peak, its.facts).to_optimum for peak in (min(peaks), max(peaks)))
    return above(least), above(most)


def _peaks(case: Case) -> list[int]:
    return [record.peak for record in case.records if record.peak is not None]


def _bytes(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"
