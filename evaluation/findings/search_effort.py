"""How much our exact search did for its answers, and which of its rules pruned what."""

from __future__ import annotations

from collections import Counter
from statistics import median

from evaluation.findings.exact_runs import (
    NO_ANSWER,
    ExactRuns,
    counters_of,
    runs_by_question,
    seconds_of,
    whole,
)
from evaluation.report.gap_tables import cell
from evaluation.report.slots import PageMaterial, slot
from planners.text.byte_units import counted
from planners.text.table import Column, Row, Table, columns_of


@slot("fit-effort")
def _fit_effort(material: PageMaterial) -> str:
    rows = [Row((name, *_effort(runs))) for name, runs in _plain(material, with_capacity=True)]
    columns = columns_of("instance", "nodes", "nodes per CPU second")
    return Table([*columns, Column("order", is_left=True)], rows).markdown() if rows else ""


@slot("fit-counters")
def _fit_counters(material: PageMaterial) -> str:
    return _counter_table(_plain(material, with_capacity=True))


@slot("smallest-peak-counters")
def _smallest_peak_counters(material: PageMaterial) -> str:
    return _counter_table(_plain(material, with_capacity=False))


def _plain(material: PageMaterial, *, with_capacity: bool) -> list[tuple[str, ExactRuns]]:
    """Return the runs with all rules on instances as they are."""
    return [
        (cell(question.instance), runs)
        for question, runs in runs_by_question(material.records).items()
        if (question.capacity is not None) is with_capacity
        and not question.variation
        and not question.rule_left_out
    ]


def _effort(runs: ExactRuns) -> tuple[str, str, str]:
    rates = [
        nodes / seconds
        for nodes, seconds in zip(runs.nodes, map(seconds_of, runs.records), strict=True)
        if nodes and seconds
    ]
    rate = whole(median(rates)) if rates else NO_ANSWER
    return whole(median(runs.nodes)), rate, _orders(runs)


def _orders(runs: ExactRuns) -> str:
    found = Counter(str(record.statistics.get("order") or NO_ANSWER) for record in runs.records)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{order} ({counted(count, 'seed')})" for order, count in found.most_common())


def _counter_table(lines: list[tuple[str, ExactRuns]]) -> str:
    """Return the counters of the first seed; those of an instance without a search are empty."""
    found = {name: counters_of(runs.records[0]) for name, runs in lines}
    names = list(dict.fromkeys(key for counters in found.values() for key in counters))
    rows = [
        Row((name, *(f"{its[key]:,}" if key in its else NO_ANSWER for key in names)))
        for name, its in found.items()
    ]
    return Table(columns_of("instance", *names), rows).markdown() if rows else ""
