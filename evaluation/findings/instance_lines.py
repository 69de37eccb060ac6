"""Every instance of a study in one line: what is known of it, who came how near, what is open."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.findings.studied_instances import StudiedInstance, studied_instances
from evaluation.report.cases import Case
from evaluation.report.gap_tables import NOTHING, cell
from evaluation.report.slots import PageMaterial, markdown_of, slot
from planners.compare.report import percent
from planners.text.table import Column, Row, Table

NAIVE = "naive"
AUTO = "auto"
SINGLE_OBJECT, MANY_OBJECTS = "greedy-", "many-objects-"
MB = 1e6


@slot("known-table")
def _known_table(material: PageMaterial) -> str:
    return markdown_of(known_table(studied_instances(material)))


@slot("nearest-table")
def _nearest_table(material: PageMaterial) -> str:
    return markdown_of(nearest_table(studied_instances(material)))


@slot("unsolved-table")
def _unsolved_table(material: PageMaterial) -> str:
    return markdown_of(unsolved_table(studied_instances(material)))


def known_table(instances: Sequence[StudiedInstance]) -> Table:
    """Return a line an instance: its size, the best bound, the best plan, and what is between."""
    columns = (
        Column("instance", is_left=True), Column("tensors"), Column("streams"), Column("chains"),
        Column("naive / bound"), Column("bound (MB)"), Column("proven by", is_left=True),
        Column("best plan (MB)"), Column("by", is_left=True), Column("and others"),
        Column("gap left"), Column("optimum", is_left=True),
    )  # fmt: skip
    return Table(columns, [Row(_known_cells(its)) for its in instances])


def _known_cells(its: StudiedInstance) -> tuple[str, ...]:
    facts, entry = its.facts, its.entry
    naive = its.best_of(NAIVE)
    reached = sum(case.peak == facts.best_known for case in its.cases)
    return (
        cell(facts.instance),
        f"{facts.tensors:,}",
        NOTHING if entry is None else f"{entry.facts.streams:,}",
        NOTHING if entry is None else f"{entry.facts.chains:,}",
        NOTHING if naive is None else _times(naive.peak, facts.lower_bound),
        _mb(facts.lower_bound or None),
        facts.certificate or NOTHING,
        _mb(facts.best_known),
        cell(facts.best_planner or NOTHING),
        NOTHING if facts.best_known is None else f"{reached - 1:,}",
        percent(its.gap_left),
        _known_from(its),
    )


def nearest_table(instances: Sequence[StudiedInstance]) -> Table:
    """Return a line an instance: the best plan of each kind of heuristic, and `auto`'s."""
    columns = (
        Column("instance", is_left=True), Column("tensors"),
        Column("Single Object, best", is_left=True), Column("gap"),
        Column("Many Objects, best", is_left=True), Column("gap"),
        Column("pressure, gap"), Column("auto, gap"), Column("auto", is_left=True),
    )  # fmt: skip
    rows = []
    for its in instances:
        single, many = its.best_of(SINGLE_OBJECT), its.best_of(MANY_OBJECTS)
        pressure = its.best_of("pressure")
        auto = next((case for case in its.cases if case.records[0].planner == AUTO), None)
        cells = (
            cell(its.facts.instance), f"{its.facts.tensors:,}",
            *_by_and_gap(its, single, SINGLE_OBJECT), *_by_and_gap(its, many, MANY_OBJECTS),
            _gap(its, pressure), _gap(its, auto),
            NOTHING if auto is None else auto.status.value,
        )  # fmt: skip
        rows.append(Row(cells))
    return Table(columns, rows)


def unsolved_table(instances: Sequence[StudiedInstance]) -> Table:
    """Return the instances whose best plan is not known to be optimal, the widest gap first."""
    unsolved = [its for its in instances if not its.is_solved]
    columns = (
        Column("instance", is_left=True), Column("tensors"), Column("bound (MB)"),
        Column("proven by", is_left=True), Column("best plan (MB)"), Column("by", is_left=True),
        Column("gap left"), Column("optimum", is_left=True),
    )  # fmt: skip
    rows = [
        Row((
            cell(its.facts.instance), f"{its.facts.tensors:,}", _mb(its.facts.lower_bound or None),
            its.facts.certificate or NOTHING, _mb(its.facts.best_known),
            cell(its.facts.best_planner or NOTHING), percent(its.gap_left), _known_from(its),
        ))
        for its in sorted(unsolved, key=lambda its: -(its.gap_left or 0.0))
    ]  # fmt: skip
    return Table(columns, rows)


def _known_from(its: StudiedInstance) -> str:
    if its.gap_left == 0:
        return "proven"
    return "open" if its.is_open else "by construction"


def _by_and_gap(its: StudiedInstance, case: Case | None, prefix: str) -> tuple[str, str]:
    name = NOTHING if case is None else case.label.removeprefix(prefix)
    return cell(name), _gap(its, case)


def _gap(its: StudiedInstance, case: Case | None) -> str:
    return NOTHING if case is None else percent(its.gaps(case).to_bound)


def _times(value: int | None, reference: int) -> str:
    return NOTHING if value is None or not reference else f"{value / reference:,.2f}x"


def _mb(value: int | None) -> str:
    return NOTHING if value is None else f"{value / MB:,.3f}"
