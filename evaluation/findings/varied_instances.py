"""What our exact search finds on variants of instances, and what it does for that."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from evaluation.findings.exact_runs import (
    ExactRuns,
    nodes_of,
    runs_by_question,
    seconds_of,
    whole,
)
from evaluation.report.figure_texts import milliseconds
from evaluation.report.gap_tables import cell
from evaluation.report.slots import PageMaterial, slot
from evaluation.study.record import ANSWERED, RunStatus
from planners.text.table import Row, Table, columns_of


@slot("variant-answers")
def _variant_answers(material: PageMaterial) -> str:
    by_variation: dict[str, dict[str, ExactRuns]] = {}
    for question, runs in runs_by_question(material.records).items():
        if question.variation and not question.rule_left_out:
            by_variation.setdefault(question.variation, {})[question.instance] = runs
    rows = []
    for variation, found in by_variation.items():
        lines = [*((cell(name), [runs]) for name, runs in found.items()), ("all", found.values())]
        rows += [Row((variation, name, *_cells(runs))) for name, runs in lines]
    headings = ("variants", "instance", "fits", "nodes", "worst", "CPU time, ms", "worst, ms")
    return Table(columns_of(*headings, left=2), rows).markdown() if rows else ""


def _cells(runs: Iterable[ExactRuns]) -> list[str]:
    records = [record for its in runs for record in its.records]
    if any(record.status is RunStatus.INVALID for record in records):
        return ["invalid"] * 5
    fits = sum(record.status in ANSWERED for record in records)
    nodes, seconds = [*map(nodes_of, records)], [*map(seconds_of, records)]
    return [
        f"{fits} of {len(records)}",
        whole(median(nodes)),
        whole(max(nodes)),
        milliseconds(median(seconds)),
        milliseconds(max(seconds)),
    ]
