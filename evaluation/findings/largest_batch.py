"""Which batch fits a memory: under plans, and under allocators that take requests as they come."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evaluation.report.cases import Case, by_planner
from evaluation.report.slots import PageMaterial, slot
from planners.errors import GaplessError
from planners.text.byte_units import parse_bytes
from planners.text.table import Column, Row, Table

# In the name of an instance that was extracted at a batch.
BATCH = re.compile(r":batch=(\d+)(?::|$)")
NOTHING = "-"


@slot("largest-batch")
def _largest_batch(material: PageMaterial) -> str:
    memories = material.words.get("memories")
    if not isinstance(memories, list) or not memories:
        raise GaplessError("page.memories: a list such as ['24GiB', '80GiB'] is needed")
    table = batch_table(material.cases, [str(memory) for memory in memories])
    return table.markdown() if table.rows else ""


def batch_table(cases: Sequence[Case], memories: Sequence[str]) -> Table:
    """Return for each memory the largest batch under each planner and allocator, and the gain.

    Note: batches above the largest that was run, or between two, are not known. Where the largest
    one fits it is shown as "at least", and no gain is.
    """
    peaks = {
        label: {_batch_of(case): case.peak for case in its if case.peak is not None}
        for label, its in by_planner(cases).items()
    }
    plans = [label for label, its in by_planner(cases).items() if not its[0].is_online]
    columns = [Column("memory", is_left=True), *map(Column, peaks), Column("plan to allocator")]
    rows = []
    for memory in memories:
        largest = {
            label: _largest(its, parse_bytes("page.memories", memory))
            for label, its in peaks.items()
        }
        shown = [_shown(batch, peaks[label]) for label, batch in largest.items()]
        rows.append(Row((memory, *shown, _gain(largest, plans, peaks))))
    return Table(columns, rows)


def _batch_of(case: Case) -> int:
    found = BATCH.search(case.facts.instance)
    if found is None:
        raise GaplessError(f"{case.facts.instance}: an instance NAME:batch=N is needed")
    return int(found[1])


def _largest(peaks: Mapping[int, int], memory: int) -> int | None:
    """Return the largest batch up to which all fit."""
    largest = None
    for batch in sorted(peaks):
        if peaks[batch] > memory:
            break
        largest = batch
    return largest


def _shown(batch: int | None, peaks: Mapping[int, int]) -> str:
    if batch is None:
        return NOTHING
    return f"at least {batch}" if batch == max(peaks) else f"{batch}"


def _gain(
    largest: Mapping[str, int | None],
    plans: Sequence[str],
    peaks: Mapping[str, Mapping[int, int]],
) -> str:
    """Return how much larger the best plan's batch is than that of the best allocator."""
    if any(batch == max(peaks[label], default=None) for label, batch in largest.items()):
        return NOTHING
    best_plan = max((largest[label] or 0 for label in plans), default=0)
    best_other = max((batch or 0 for label, batch in largest.items() if label not in plans),
                     default=0)  # fmt: skip
    return f"{best_plan / best_other - 1:+.1%}" if best_plan and best_other else NOTHING
