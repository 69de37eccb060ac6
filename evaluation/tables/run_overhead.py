"""What runs cost beside their planner, from the moments at which they began."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from statistics import mean

from evaluation.report.slots import PageMaterial, slot
from evaluation.study.record import InstanceRecord
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

HEADINGS = (
    "instance", "tensors", "runs", "planner ms", "run ms beside it", "to a second",
    "10^6 runs, hours of a core", "record bytes", "gzipped",
)  # fmt: skip
SECONDS_PER_HOUR = 3600


@slot("overhead-table")
def _overhead_table(material: PageMaterial) -> str:
    by_instance: dict[str, list[InstanceRecord]] = {}
    for record in material.records:
        if isinstance(record, InstanceRecord):
            by_instance.setdefault(record.instance, []).append(record)
    rows = [Row(_cells(records)) for records in by_instance.values() if len(records) > 1]
    return Table(columns_of(*HEADINGS), rows).markdown() if rows else ""


def _cells(records: Sequence[InstanceRecord]) -> list[str]:
    moments = [record.moment for record in records]
    # From the first begin to the last: one run less than there are.
    between = len(records) - 1
    planning = mean(record.wall_seconds or 0.0 for record in records)
    beside = (max(moments) - min(moments)).total_seconds() / between - planning
    lines = [f"{record.to_json()}\n".encode() for record in records]
    packed = gzip.compress(b"".join(lines), mtime=0)
    return [
        records[0].instance,
        f"{records[0].tensors:,}",
        f"{len(records):,}",
        three_digits(1e3 * planning),
        three_digits(1e3 * beside),
        f"±{three_digits(1e3 / between)}",
        f"{1e6 * beside / SECONDS_PER_HOUR:.1f}",
        f"{mean(map(len, lines)):,.0f}",
        f"{len(packed) / len(records):,.0f}",
    ]
