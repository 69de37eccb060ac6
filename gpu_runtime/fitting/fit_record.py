"""Whether a program fits, for programs: every number exact."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from gpu_runtime.fitting.fit_check import FitCheck
from gpu_runtime.fitting.largest_value import LargestValues
from gpu_runtime.fitting.traced_apart import Traced
from planners.compare.records import environment

SCHEMA = "gapless-fit"
SCHEMA_VERSION = 1


def fit_json(
    traced: Traced, check: FitCheck, memory: int | None, beside: int, found: LargestValues | None
) -> str:
    """Return what ``--json`` prints; what was not asked for is null."""
    record = {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "environment": environment(),
        "program": traced.label,
        "origin": dict(traced.origin),
        "memory": memory,
        "beside": beside,
        "answer": None if memory is None else check.answer.value,
        "peak": asdict(check.peak),
        "allocators": [asdict(row) for row in check.rows],
        "vary": None if found is None else _search_record(found, check),
    }
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def _search_record(found: LargestValues, check: FitCheck) -> dict[str, Any]:
    labels = [row.label for row in check.rows]
    return {
        "parameter": found.parameter,
        "by": found.by,
        "largest": {
            label: {"value": found.largest(label), "found": found.is_found(label)}
            for label in labels
        },
        "tried": {
            str(value): [asdict(row) for row in one.rows] for value, one in found.tried.items()
        },
    }
