"""A comparison for programs: JSON and CSV of the same fields, every number exact and finite."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
from collections.abc import Iterable
from functools import cache
from typing import Any

from planners.compare.comparison import Comparison, ComparisonRow
from planners.compare.report import about_reference
from planners.files.json_file import compact_json
from planners.model.budget import Budget
from planners.model.plan import Status
from planners.online.online_records import online_fields, online_record
from planners.online.online_run import OnlineRun
from planners.reorder.reordering import reordering_record
from planners.text.plain_text import csv_cell
from planners.version import version_of

SCHEMA = "gapless-comparison"
SCHEMA_VERSION = 2
PACKAGES = ("gapless", "numpy", "scipy", "ortools", "pulp")
REFERENCE_STATUS = "reference"
ONLINE_STATUS = "online"


# docs/comparing.md says what each column means. New columns come last, because programs may count
# columns.
CSV_COLUMNS = (
    "instance", "planner", "status", "peak", "lower_bound", "certificate", "gap_to_bound",
    "gap_to_best", "seconds", "cpu_seconds", "valid", "reason", "label", "parameters", "seed",
    "claim", "file", "tensors", "streams", "chains", "unsafe_share", "naive", "capacity", "verdict",
    "verdict_by", "bounds", "safety_seconds", "bounds_seconds", "interrupted", "left_out",
    "reordering", "version", "time_limit_seconds", "threads", "platform", "processors", "python",
    "packages", "cost", "cost_bound", "cost_certificate", "gap_to_cost_bound",
)  # fmt: skip
Fields = dict[str, Any]


def json_text(budget: Budget, instances: list[Fields]) -> str:
    """Return what ``--json`` prints."""
    answer = {"schema": SCHEMA, **_run_fields(budget), "instances": instances}
    return json.dumps(answer, indent=1, allow_nan=False) + "\n"


def comparison_record(
    comparison: Comparison,
    rows: Iterable[ComparisonRow],
    file: str,
    online: OnlineRun | None = None,
) -> Fields:
    """Return a comparison as plain values."""
    return {
        **_instance_fields(comparison, file),
        "reference": _reference_fields(comparison),
        "results": [_result_fields(row) for row in rows],
        "online": None if online is None else online_record(online),
    }


def csv_lines(
    comparison: Comparison,
    rows: Iterable[ComparisonRow],
    file: str,
    budget: Budget,
    online: OnlineRun | None = None,
) -> str:
    """Return a comparison as lines of CSV, without the header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    run = _run_fields(budget)
    shared = {
        "version": run["version"],
        **run["budget"],
        **run["environment"],
        **_instance_fields(comparison, file),
    }
    lines = [_result_fields(row) for row in rows]
    reference = _reference_fields(comparison)
    if reference is not None:
        lines.append(
            {
                **_not_planned(reference["label"], REFERENCE_STATUS, reference["reserved"]),
                "gap_to_bound": reference["gap_to_bound"],
                "gap_to_best": reference["gap_to_best"],
                "reason": reference["about"],
            }
        )
    for fields in map(online_fields, online.rows if online is not None else ()):
        status = ONLINE_STATUS if fields["valid"] else Status.INVALID.value
        line = _not_planned(fields["allocator"], status, fields["reserved_peak"])
        lines.append({**line, **{key: fields[key] for key in ("seconds", "valid", "reason")}})
    for line in lines:
        writer.writerow({key: _csv_cell(value) for key, value in {**shared, **line}.items()})
    return text.getvalue()


def _not_planned(label: str, status: str, peak: int | None) -> Fields:
    """Return the CSV fields of a row that no planner answered."""
    return {"planner": label, "label": label, "status": status, "peak": peak, "seed": None}


@cache
def environment() -> Fields:
    """Return the machine, the Python and the versions of packages of this process."""
    return {
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "packages": {package: version_of(package) for package in PACKAGES},
    }


def _run_fields(budget: Budget) -> Fields:
    limit = budget.time_limit_seconds
    return {
        "version": SCHEMA_VERSION,
        "environment": environment(),
        "budget": {
            "time_limit_seconds": limit if limit is not None and math.isfinite(limit) else None,
            "threads": budget.threads,
            "seed": budget.seed,
        },
    }


def _instance_fields(comparison: Comparison, file: str) -> Fields:
    problem, verdict = comparison.problem, comparison.verdict
    return {
        "instance": problem.name,
        "file": file,
        "tensors": problem.tensor_count,
        "streams": problem.stream_count,
        "chains": len(problem.contiguous),
        "unsafe_share": comparison.unsafe_share,
        "naive": problem.naive_bytes,
        "capacity": problem.capacity,
        "verdict": None if verdict is None else verdict.answer.value,
        "verdict_by": None if verdict is None else verdict.by or None,
        "bounds": {bound.name: bound.bytes for bound in comparison.bounds},
        "safety_seconds": comparison.safety_seconds,
        "bounds_seconds": comparison.bounds_seconds,
        "interrupted": comparison.interrupted,
        "left_out": list(comparison.left_out),
        "reordering": (
            None if comparison.reordering is None else reordering_record(comparison.reordering)
        ),
    }


def _reference_fields(comparison: Comparison) -> Fields | None:
    row = comparison.reference_row
    if row is None:
        return None
    return {
        "label": row.reference.label,
        "reserved": row.reference.reserved,
        "exact": row.reference.exact,
        "below_lifetime_bound": row.below_lifetime_bound,
        "gap_to_bound": row.gap_to_bound,
        "gap_to_best": row.gap_to_best,
        "about": about_reference(comparison),
    }


def _result_fields(row: ComparisonRow) -> Fields:
    result = row.result
    return {
        "planner": result.planner,
        "status": result.status.value,
        "peak": result.peak,
        "lower_bound": result.lower_bound,
        "certificate": result.certificate,
        "gap_to_bound": row.gap_to_bound,
        "gap_to_best": row.gap_to_best,
        "seconds": result.seconds,
        "cpu_seconds": result.cpu_seconds,
        "valid": result.valid,
        "reason": result.reason,
        "label": row.label,
        "parameters": dict(result.parameters),
        "seed": result.seed,
        "claim": None if result.claim is None else str(result.claim),
        "cost": result.cost,
        "cost_bound": result.cost_bound,
        "cost_certificate": result.cost_certificate,
        "gap_to_cost_bound": row.gap_to_cost_bound,
    }


def _csv_cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return csv_cell(value)
    return compact_json(value) if isinstance(value, (dict, list)) else value
