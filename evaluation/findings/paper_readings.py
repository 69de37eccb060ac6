"""What each reading of what a paper leaves open comes to, over recordings and on each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean

from evaluation.findings.recorded_problems import READING, RecordedProblem, recorded_problems
from evaluation.report.figure_texts import percent
from evaluation.report.gap_tables import NOTHING, cell
from evaluation.report.slots import PageMaterial, slot
from evaluation.study.record import Record
from planners.homosize.paper_variant import PaperVariant
from planners.text.table import Column, Row, Table

AS_CHOSEN = "as chosen"


@dataclass(frozen=True)
class Reading:
    """One reading: its share of each recording, and the fusions that it accepted there."""

    name: str
    shares: Mapping[str, float]
    fusions: Mapping[str, int]


@slot("readings-table")
def _readings_table(material: PageMaterial) -> str:
    readings = _readings(material)
    best = max((mean(each.shares.values()) for each in readings), default=0.0)
    rows = []
    for each in readings:
        shares = each.shares
        worst = min(shares, key=lambda trace: shares[trace])
        cells = (
            cell(each.name), percent(mean(shares.values())), percent(shares[worst]), cell(worst),
            f"{sum(each.fusions.values()):,}",
        )  # fmt: skip
        rows.append(Row.best(cells) if mean(shares.values()) == best else Row(cells))
    columns = (
        Column("reading", is_left=True), Column("mean"), Column("worst"),
        Column("where", is_left=True), Column("fusions"),
    )  # fmt: skip
    return Table(columns, rows).markdown() if rows else ""


@slot("readings-by-recording-table")
def _by_recording_table(material: PageMaterial) -> str:
    readings = _readings(material)
    traces = dict.fromkeys(trace for each in readings for trace in each.shares)
    rows = [Row((cell(each.name), *(_share(each, trace) for trace in traces))) for each in readings]
    columns = (Column("reading", is_left=True), *(Column(cell(trace)) for trace in traces))
    return Table(columns, rows).markdown() if rows else ""


def _share(reading: Reading, trace: str) -> str:
    if trace not in reading.shares:
        return NOTHING
    fusions = reading.fusions[trace]
    return percent(reading.shares[trace]) + (f" ({fusions})" if fusions else "")


def _readings(material: PageMaterial) -> list[Reading]:
    """Return the readings that were run, in their order."""
    names = material.words.get("reading-names", {})
    found: dict[str, list[tuple[RecordedProblem, Record]]] = {}
    for problem in recorded_problems(material.records):
        for label, runs in problem.runs.items():
            if runs.records[0].planner == READING and problem.efficiency(label) is not None:
                found.setdefault(label, []).append((problem, runs.records[0]))
    return [_reading(label, its, names) for label, its in found.items()]


def _reading(
    label: str, its: Sequence[tuple[RecordedProblem, Record]], names: Mapping[str, str]
) -> Reading:
    chosen = asdict(PaperVariant())
    parameters = its[0][1].parameters
    differing = [f"{key}={_text(value)}" for key, value in parameters.items()
                 if value != chosen[key]]  # fmt: skip
    written = ", ".join(differing) or AS_CHOSEN
    return Reading(
        names.get(written, written),
        {problem.trace: problem.efficiency(label) or 0.0 for problem, _ in its},
        {problem.trace: int(record.statistics["fusions"]) for problem, record in its},
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
