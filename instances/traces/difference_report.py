"""The differences between an iteration of two traces of one program, as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from instances.formats.recorded_trace import read_recorded_trace_file
from instances.traces.trace_differences import (
    IterationFigures,
    RequestDifference,
    find_differences,
    iteration_figures,
    live_after_allocations,
)
from planners.text.table import Row, Table, columns_of


def difference_report(recorded: Path, other: Path, iteration: int) -> str:
    """Return the figures of an iteration of two traces, then every request that differs.

    The iteration 0 is the first and -1 the last.
    """
    first, second = (read_recorded_trace_file(path) for path in (recorded, other))
    figures = [iteration_figures(trace, iteration) for trace in (first, second)]
    differences = find_differences(first, second, iteration)
    live = [live_after_allocations(trace, iteration) for trace in (first, second)]
    rows = sorted(differences.items(), key=lambda item: (item[0].phase, -item[1], item[0].first))
    paragraphs = [
        _figures_table(*figures).markdown(),
        _differences_table(rows).markdown() if rows else "No request differs.",
    ]
    if len(live[0]) == len(live[1]):
        apart = np.abs(live[1] - live[0])
        paragraphs.append(
            f"Live bytes right after an allocation differ at {np.count_nonzero(apart):,} of "
            f"{len(apart):,}, by at most {apart.max(initial=0):,}."
        )
    return "\n\n".join(paragraphs) + "\n"


def _figures_table(first: IterationFigures, second: IterationFigures) -> Table:
    rows = []
    for field, title in (
        ("requests", "allocations"),
        ("requested_bytes", "bytes allocated"),
        ("peak_bytes", "peak of requested bytes"),
        ("persistent_bytes", "of it persistent"),
    ):
        ours, theirs = getattr(first, field), getattr(second, field)
        ratio = f"{theirs / ours:.6f}" if ours else "-"
        rows.append(Row((title, f"{ours:,}", f"{theirs:,}", ratio)))
    return Table(columns_of("", "recorded", "other", "ratio"), rows)


def _differences_table(found: list[tuple[RequestDifference, int]]) -> Table:
    rows = []
    for difference, times in found:
        sides = (
            ", ".join(f"{size:,}" for size in side) or "none"
            for side in (difference.first, difference.second)
        )
        rows.append(Row((difference.phase.name.lower(), str(times), *sides)))
    return Table(columns_of("phase", "times", "recorded bytes", "other bytes"), rows)
