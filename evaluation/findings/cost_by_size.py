"""What planning costs by the number of tensors: each planner, and what stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from evaluation.findings.file_costs import FILES
from evaluation.report.gap_tables import cell
from evaluation.report.slots import PageMaterial, slot
from evaluation.study.instance_name import settings_in
from evaluation.study.record import ANSWERED, Record
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

# The planner that times the parts, from the study's own file, and the parts.
PARTS = "planning-parts"
SAFETY, BOUND, REFEREE = "safety", "bound", "referee"
MEMORY = "memory, MiB"
MIB = 1 << 20
NOTHING = "-"

# Seconds of all runs, by planner or part; and what the parts took of memory together.
Costs = dict[str, list[float]]


@slot("planning-costs")
def _planning_costs(material: PageMaterial) -> str:
    """Return a table a family: a line for each number of tensors, the fewest first."""
    tables = []
    for name, by_tensors in _by_family(material.records).items():
        found = sorted(by_tensors.items())
        planners = list(dict.fromkeys(
            planner for _, costs in found for planner in costs
            if planner not in (SAFETY, BOUND, REFEREE, MEMORY)
        ))  # fmt: skip
        columns = [SAFETY, BOUND, *planners, REFEREE]
        rows = [
            Row(
                (
                    f"{tensors:,}",
                    *(_cost(costs.get(column), tensors) for column in columns),
                    _memory(costs.get(MEMORY)),
                )
            )
            for tensors, costs in found
        ]
        tables.append(
            Table(columns_of(f"{cell(name)}: tensors", *columns, MEMORY, left=0), rows).markdown()
        )
    return "\n\n".join(tables)


def _by_family(records: Sequence[Record]) -> dict[str, dict[int, Costs]]:
    """Return what runs cost, by family with all settings but tensors and seed, and by tensors."""
    families: dict[str, dict[int, Costs]] = {}
    for record in records:
        family, settings = settings_in(record.instance)
        others = [f"{key}={value}" for key, value in settings.items()
                  if key not in ("tensors", "seed")]  # fmt: skip
        if record.status not in ANSWERED or not record.timed or record.planner == FILES:
            continue
        costs = families.setdefault(":".join([family, *others]), {}).setdefault(record.tensors, {})
        if record.planner == PARTS:
            for part in (SAFETY, BOUND, REFEREE):
                costs.setdefault(part, []).append(float(record.statistics[f"{part}_seconds"]))
            if record.peak_resident_bytes is not None:
                costs.setdefault(MEMORY, []).append(record.peak_resident_bytes / MIB)
        elif record.processor_seconds is not None:
            costs.setdefault(record.planner, []).append(record.processor_seconds)
    return families


def _cost(seconds: Sequence[float] | None, tensors: int) -> str:
    """Return milliseconds, and in brackets microseconds a tensor."""
    if not seconds:
        return NOTHING
    middle = median(seconds)
    return f"{three_digits(1e3 * middle)} ({three_digits(1e6 * middle / max(1, tensors))})"


def _memory(mib: Sequence[float] | None) -> str:
    return three_digits(median(mib)) if mib else NOTHING
