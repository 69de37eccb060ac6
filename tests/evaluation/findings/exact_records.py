"""Records of exact planners that no run made."""

from __future__ import annotations

import re
from typing import Any

from evaluation.report.slots import PageMaterial, known_slots
from evaluation.study.record import Record, RunStatus
from tests.evaluation.study.made_up_records import record

FITS = "a.12.csv:capacity=12"
LEAST = "a.12.csv"


def ours(instance: str = FITS, seconds: float | None = 1.0, **changes: Any) -> Record:
    """Return the record of a run with all rules, and with a plan unless a peak says otherwise."""
    fields = {
        "processor_seconds": seconds,
        "budget_seconds": 10.0,
        "lower_bound": 10,
        "parameters": {"split": True, "memory": True},
        "statistics": {"nodes": 100, "by_section": 7, "order": "left, area"},
    }
    return record(instance, "branch-and-bound", **{**fields, **changes})


def theirs(
    instance: str = FITS, seconds: float | None = 1.0, threads: int = 1, **changes: Any
) -> Record:
    """Return the record of a run of the peer."""
    parameters = {"allocator": "supermalloc", "threads": threads}
    fields = {"processor_seconds": seconds, "budget_seconds": 10.0, "lower_bound": 10}
    return record(instance, "omnimalloc", **{**fields, "parameters": parameters, **changes})


def late(**changes: Any) -> dict[str, Any]:
    """Return the fields of a run that found no plan in its time."""
    return {"peak": None, "status": RunStatus.NO_PLAN_FOUND, **changes}


def table(slot: str, *records: Record) -> list[list[str]]:
    """Return the cells of the table in a place, the headings first; none where it is empty."""
    text = known_slots()[slot](PageMaterial("exact", records))
    lines = [line for line in text.splitlines() if not re.fullmatch(r"[|:-]+", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
