"""Which start offsets a chain may take: the published rule and the exact one, held together.

Source: Lamprou et al. 2023, algorithm 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from evaluation.report.slots import PageMaterial, markdown_of, slot
from evaluation.study.gaps import facts_of, gaps_of
from evaluation.study.record import ANSWERED, Record
from planners.compare.report import percent
from planners.text.table import Row, Table, columns_of

RULE = "chain_rule"
EXACT, PAPER = "exact", "paper"
ALGORITHMS = {"greedy": "SO", "many-objects": "MO"}
FITS = ("first", "best")

# Gaps to the best bound, of one planner on one instance under both rules.
Pair = tuple[float, float]


@slot("chain-rules-table")
def _chain_rules_table(material: PageMaterial) -> str:
    return markdown_of(chain_rules_table(material.records))


def chain_rules_table(records: Sequence[Record]) -> Table:
    """Return a line for each algorithm and fit, over all instances that ran under both rules."""
    pairs = _pairs(records)
    rows = []
    for algorithm, label in ALGORITHMS.items():
        for fit in FITS:
            its = [
                pair
                for planner, found in pairs.items()
                if planner.startswith(f"{algorithm}-") and planner.endswith(f"-{fit}")
                for pair in found
            ]
            if its:
                rows.append(Row((f"{label}, {fit} fit", *_cells(its))))
    return Table(
        columns_of(
            "", "plans", "exact lower", "same", "exact higher", "mean gap to bound, exact", "paper"
        ),
        rows,
    )


def _cells(pairs: Sequence[Pair]) -> list[str]:
    exact, paper = zip(*pairs, strict=True)
    return [
        f"{len(pairs):,}",
        f"{sum(ours < theirs for ours, theirs in pairs):,}",
        f"{sum(ours == theirs for ours, theirs in pairs):,}",
        f"{sum(ours > theirs for ours, theirs in pairs):,}",
        percent(mean(exact)),
        percent(mean(paper)),
    ]


def _pairs(records: Sequence[Record]) -> dict[str, list[Pair]]:
    """Return what each planner reached under both rules, an entry an instance."""
    facts = facts_of(records)
    gaps: dict[tuple[str, str], dict[str, float]] = {}
    for record in records:
        gap = gaps_of(record, facts[record.instance_digest]).to_bound
        if gap is not None and record.status in ANSWERED:
            its = gaps.setdefault((record.planner, record.instance_digest), {})
            its[str(record.parameters.get(RULE))] = gap
    pairs: dict[str, list[Pair]] = {}
    for (planner, _), its in gaps.items():
        if EXACT in its and PAPER in its:
            pairs.setdefault(planner, []).append((its[EXACT], its[PAPER]))
    return pairs
