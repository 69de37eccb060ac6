"""What each rule of our exact search is worth: the same question with one of them left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from evaluation.findings.exact_runs import (
    NO_ANSWER,
    ExactRuns,
    runs_by_question,
    time_or_why_not,
    whole,
)
from evaluation.report.figure_texts import milliseconds
from evaluation.report.gap_tables import cell
from evaluation.report.slots import PageMaterial, slot
from planners.text.table import Row, Table, columns_of


@slot("time-without-a-rule")
def _time_without_a_rule(material: PageMaterial) -> str:
    return _table(material, "rules, ms", lambda runs: runs.seconds, milliseconds)


@slot("nodes-without-a-rule")
def _nodes_without_a_rule(material: PageMaterial) -> str:
    return _table(material, "rules, nodes", lambda runs: sum(runs.nodes), whole)


def _table(
    material: PageMaterial,
    heading: str,
    cost: Callable[[ExactRuns], float],
    show: Callable[[float], str],
) -> str:
    instances, by_rules = _runs_by_rules(material)
    if len(by_rules) < 2:
        return ""
    columns = list(zip(*by_rules.values(), strict=True))
    least = [
        min((cost(runs) for runs in column if runs is not None and runs.settled), default=None)
        for column in columns
    ]
    rows = []
    for name, line in by_rules.items():
        cells = [
            NO_ANSWER
            if runs is None
            else time_or_why_not(runs, show(cost(runs)), best=cost(runs) == lowest)
            for runs, lowest in zip(line, least, strict=True)
        ]
        rows.append(Row((name, *cells, _sum(line, cost, show))))
    return Table(columns_of(heading, *map(cell, instances), "all"), rows).markdown()


def _runs_by_rules(
    material: PageMaterial,
) -> tuple[list[str], dict[str, list[ExactRuns | None]]]:
    """Return the instances, and the runs on each by what is left out; all of the first seed."""
    found: dict[str, dict[str, ExactRuns]] = {}
    for question, runs in runs_by_question(material.records).items():
        if question.capacity is not None and not question.variation:
            rules = f"without {question.rule_left_out}" if question.rule_left_out else "all rules"
            first = replace(runs, records=runs.records[:1])
            found.setdefault(rules, {})[question.instance] = first
    instances = list(dict.fromkeys(name for its in found.values() for name in its))
    return instances, {rules: [its.get(name) for name in instances] for rules, its in found.items()}


def _sum(
    line: Sequence[ExactRuns | None],
    cost: Callable[[ExactRuns], float],
    show: Callable[[float], str],
) -> str:
    known = [runs for runs in line if runs is not None and runs.broken is None]
    if len(known) < len(line):
        return NO_ANSWER
    more = "" if all(runs.settled for runs in known) else ">"
    return more + show(sum(map(cost, known)))
