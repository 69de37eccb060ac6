"""The slot `planner-costs`: peak, time and memory of every planner, a table an instance."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from evaluation.findings.cost_of_planning import planning_bytes, planning_seconds, values_of
from evaluation.report.cases import Case
from evaluation.report.gap_tables import NOTHING, by_instance, cell
from evaluation.report.slots import PageMaterial, slot
from planners.compare.report import percent
from planners.text.byte_units import exact_bytes, three_digits
from planners.text.table import Row, Table, columns_of

# Fewer are a duel, which has a table of its own.
FEWEST_PLANNERS = 3
MIB = 1 << 20


@slot("planner-costs")
def _planner_costs(material: PageMaterial) -> str:
    return "\n\n".join(
        f"### {_heading(cases[0])}\n\n{cost_table(cases).markdown()}"
        for cases in by_instance(material.cases).values()
        if len(cases) >= FEWEST_PLANNERS
    )


def cost_table(cases: Sequence[Case]) -> Table:
    """Return a line a planner; the best has the lowest peak, and of equal ones the least time."""
    best = min((case for case in cases if case.peak is not None), key=_rank, default=None)
    rows = [Row.best(_cells(case)) if case is best else Row(_cells(case)) for case in cases]
    headings = ("planner", "peak (bytes)", "above bound", "time (ms)", "worst (ms)",
                "memory (MiB)")  # fmt: skip
    return Table(columns_of(*headings), rows)


def _heading(case: Case) -> str:
    facts = case.facts
    return (
        f"{cell(facts.instance)}, {facts.tensors:,} tensors, {facts.certificate} bound "
        f"{exact_bytes(facts.lower_bound)} bytes"
    )


def _rank(case: Case) -> tuple[int, float]:
    seconds = values_of(case.records, planning_seconds)
    return case.peak or 0, median(seconds) if seconds else float("inf")


def _cells(case: Case) -> list[str]:
    seconds = values_of(case.records, planning_seconds)
    memory = values_of(case.records, planning_bytes)
    return [
        cell(case.label),
        case.status.value if case.peak is None else exact_bytes(case.peak),
        percent(case.gaps.to_bound),
        three_digits(1e3 * median(seconds)) if seconds else NOTHING,
        three_digits(1e3 * max(seconds)) if seconds else NOTHING,
        three_digits(median(memory) / MIB) if memory else NOTHING,
    ]
