"""What it takes from a file to a judged plan: one process, from its start to its end."""

from __future__ import annotations

from statistics import median

from evaluation.report.slots import PageMaterial, slot
from evaluation.study.record import ANSWERED, Record
from planners.text.byte_units import three_digits
from planners.text.table import Row, Table, columns_of

# The planner that runs the command, from the study's own file.
FILES = "planned-file"
MIB = 1 << 20


@slot("file-costs")
def _file_costs(material: PageMaterial) -> str:
    """Return a line for each number of tensors and format, the fewest first."""
    groups: dict[tuple[int, str], list[Record]] = {}
    for record in material.records:
        if record.planner == FILES and record.status in ANSWERED and record.timed:
            key = (record.tensors, str(record.statistics["file"]))
            groups.setdefault(key, []).append(record)
    headings = ("tensors", "file", "file, MiB", "CPU, s", "CPU a tensor, us", "memory, MiB")
    return Table(
        columns_of(*headings), [_row(key, groups[key]) for key in sorted(groups)]
    ).markdown()


def _row(key: tuple[int, str], records: list[Record]) -> Row:
    tensors, file = key
    seconds, memory, size = (
        median(float(record.statistics[name]) for record in records)
        for name in ("processor_seconds", "peak_resident_bytes", "file_bytes")
    )
    return Row(
        (
            f"{tensors:,}",
            file,
            three_digits(size / MIB),
            three_digits(seconds),
            three_digits(1e6 * seconds / max(1, tensors)),
            three_digits(memory / MIB),
        )
    )
