"""Which batch fits a memory: under plans, and under allocators that take requests as they come."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from evaluation.report.cases import Case, by_planner
from evaluation.report.gap_tables import cell
from evaluation.report.slots import PageMaterial, slot
from planners.errors import GaplessError
from planners.text.byte_units import parse_bytes
from planners.text.table import Row, Table, columns_of

# In the name of an instance that was extracted at a batch.
BATCH = re.compile(r":batch=(\d+)(?=:|$)")
NOTHING = "-"


@slot("largest-batch")
def _largest_batch(material: PageMaterial) -> str:
    memories = material.words.get("memories")
    if not isinstance(memories, list) or not memories:
        raise GaplessError("page.memories: a list such as ['24GiB', '80GiB'] is needed")
    named = [str(memory) for memory in memories]
    return _by_series(material.cases, lambda title, cases: batch_table(title, cases, named))


@slot("peaks-by-batch")
def _peaks_by_batch(material: PageMaterial) -> str:
    return _by_series(material.cases, peak_table)


def _by_series(cases: Sequence[Case], make: Callable[[str, Sequence[Case]], Table]) -> str:
    """Return a table for each series: the instances whose names differ in the batch alone."""
    series: dict[str, list[Case]] = {}
    for case in cases:
        series.setdefault(BATCH.sub("", case.facts.instance), []).append(case)
    return "\n\n".join(make(cell(name), its).markdown() for name, its in series.items())


def batch_table(title: str, cases: Sequence[Case], memories: Sequence[str]) -> Table:
    """Return for each memory the largest batch under each planner and allocator, and the gain.

    Note: batches above the largest that was run, or between two, are not known. Where the largest
    one fits it is shown as "at least", and no gain is.
    """
    peaks = _peaks(cases)
    plans = [label for label, its in by_planner(cases).items() if not its[0].is_online]
    rows = []
    for memory in memories:
        largest = {
            label: _largest(its, parse_bytes("page.memories", memory))
            for label, its in peaks.items()
        }
        shown = [_shown(batch, peaks[label]) for label, batch in largest.items()]
        rows.append(Row((memory, *shown, _gain(largest, plans, peaks))))
    return Table(columns_of(f"{title}: memory", *peaks, "plan to allocator"), rows)


def peak_table(title: str, cases: Sequence[Case]) -> Table:
    """Return for each batch the peak of the best plan, and what each allocator reserves of it."""
    labelled = by_planner(cases)
    peaks = _peaks(cases)
    plans = [label for label, its in labelled.items() if not its[0].is_online]
    online = [label for label in labelled if label not in plans]
    rows = []
    for batch in sorted(set().union(*peaks.values())):
        found = [peaks[label][batch] for label in plans if batch in peaks[label]]
        best = min(found) if found else None
        row = [f"{batch}", _gib(best)]
        for label in online:
            reserved = peaks[label].get(batch)
            more = f"{reserved / best - 1:+.2%}" if best and reserved else NOTHING
            row += [_gib(reserved), more]
        rows.append(Row(tuple(row)))
    headings = [heading for label in online for heading in (f"{label} (GiB)", "above")]
    return Table(columns_of(f"{title}: batch", "best plan (GiB)", *headings, left=0), rows)


def _peaks(cases: Sequence[Case]) -> dict[str, dict[int, int]]:
    """Return by planner and by batch the peak, or what was reserved."""
    return {
        label: {_batch_of(case): case.peak for case in its if case.peak is not None}
        for label, its in by_planner(cases).items()
    }


def _gib(size: int | None) -> str:
    return NOTHING if size is None else f"{size / 2**30:.2f}"


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
