"""All exact planners of ours on the questions that the solvers of others were asked as well."""

from __future__ import annotations

from evaluation.findings.exact_runs import (
    NO_ANSWER,
    OURS,
    ExactRuns,
    Question,
    exact_runs,
    time_or_why_not,
)
from evaluation.report.figure_texts import milliseconds
from evaluation.report.gap_tables import cell
from evaluation.report.slots import PageMaterial, slot
from planners.text.table import Row, Table, columns_of

SOLVERS = ("cp-sat", "ilp-highs", "ilp-cbc")


@slot("exact-planners")
def _exact_planners(material: PageMaterial) -> str:
    names = (OURS, *SOLVERS)
    found = [
        exact_runs(record for record in material.records if record.planner == name)
        for name in names
    ]
    asked = dict.fromkeys(question for runs in found[1:] for question in runs)
    rows = [Row(_cells(question, [runs.get(question) for runs in found])) for question in asked]
    if not rows:
        return ""
    headings = ("instance", "tensors", "asked", *(f"{name}, ms" for name in names))
    return Table(columns_of(*headings), rows).markdown()


def _cells(question: Question, by_planner: list[ExactRuns | None]) -> list[str]:
    known = [runs for runs in by_planner if runs is not None]
    least = min((runs.seconds for runs in known if runs.settled), default=None)
    return [
        cell(question.instance),
        f"{known[0].records[0].tensors:,}",
        "smallest peak" if question.capacity is None else f"{question.capacity:,} bytes",
        *(NO_ANSWER if runs is None else _cost(runs, least) for runs in by_planner),
    ]


def _cost(runs: ExactRuns, least: float | None) -> str:
    """Return the median, and the worst in brackets where there is more than one run."""
    cost = time_or_why_not(runs, milliseconds(runs.seconds), best=runs.seconds == least)
    if len(runs.records) == 1:
        return cost
    if runs.settled:
        return f"{cost} ({milliseconds(runs.worst_seconds)})"
    settled = runs.settled_count
    return f"{cost}, {settled} of {len(runs.records)}" if settled else cost
