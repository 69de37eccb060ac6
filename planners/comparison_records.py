"""A comparison for programs: JSON and CSV, every number exact and finite."""

from __future__ import annotations

import csv
import io
import math
import os
import platform
from collections.abc import Iterable
from typing import Any

from planners.comparison import Comparison, ReferenceRow, Row

SCHEMA_VERSION = 1
PACKAGES = ("gapless", "numpy", "scipy", "ortools", "pulp")
CSV_COLUMNS = (
    "instance", "planner", "status", "peak", "lower_bound", "certificate", "gap_to_bound",
    "gap_to_best", "seconds", "cpu_seconds", "valid", "reason",
)  # fmt: skip


def comparison_record(comparison: Comparison, rows: Iterable[Row]) -> dict[str, Any]:
    """Return a comparison as plain values.

    Parameters
    ----------
    comparison
        What was compared.
    rows
        Its rows in the order in which they are shown.

    Returns
    -------
    dict
        One entry of ``instances``; sizes in bytes, gaps as ratios, None for what does not exist.
    """
    problem = comparison.problem
    return {
        "instance": problem.name,
        "tensors": problem.tensor_count,
        "streams": problem.stream_count,
        "chains": len(problem.contiguous),
        "naive": problem.naive_bytes,
        "capacity": problem.capacity,
        "bounds": {bound.name: bound.bytes for bound in comparison.bounds},
        "reference": _reference_record(comparison.reference_row),
        "safety_seconds": comparison.safety_seconds,
        "bounds_seconds": comparison.bounds_seconds,
        "interrupted": comparison.interrupted,
        "left_out": list(comparison.left_out),
        "results": [_row_record(row) for row in rows],
    }


def csv_lines(comparison: Comparison, rows: Iterable[Row]) -> str:
    """Return a comparison as lines of CSV, without the header.

    Parameters
    ----------
    comparison
        What was compared.
    rows
        Its rows in the order in which they are shown.

    Returns
    -------
    str
        One line a row with the columns ``CSV_COLUMNS``; a value that does not exist is empty. The
        reference, if there is one, is the last; its status is ``reference``.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    instance = {"instance": comparison.problem.name}
    for row in rows:
        cells = {key: _csv_cell(value) for key, value in _row_record(row).items()}
        writer.writerow(instance | cells)
    reference = _reference_record(comparison.reference_row)
    if reference is not None:
        writer.writerow(
            instance
            | reference
            | {"planner": reference["label"], "status": "reference", "peak": reference["reserved"]}
        )
    return text.getvalue()


def environment() -> dict[str, Any]:
    """Return where and with what a comparison ran: machine, Python, versions of packages."""
    # Imported here because the text table does without it.
    from importlib import metadata

    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "packages": versions,
    }


def _reference_record(row: ReferenceRow | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {
        "label": row.reference.label,
        "reserved": row.reference.reserved,
        "exact": row.reference.exact,
        "gap_to_bound": row.gap_to_bound,
        "gap_to_best": row.gap_to_best,
    }


def _row_record(row: Row) -> dict[str, Any]:
    result = row.result
    return {
        "planner": result.planner,
        "label": row.label,
        "parameters": {key: _plain(value) for key, value in result.parameters.items()},
        "seed": result.seed,
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
    }


def _plain(value: object) -> str | int | float | bool:
    """Return a parameter as JSON can hold it; a third party may have any object as a default."""
    if isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def _csv_cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
