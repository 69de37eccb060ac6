"""Files of the runs that studies of online allocators replay, traced without a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from evaluation.recordings.routed_mixture import MIXTURES, RoutedMixture
from evaluation.recordings.traced_loops import LOOPS, TracedLoop
from instances.formats.recorded_trace import RECORDED_TRACE, write_recorded_trace

RUNS: tuple[TracedLoop | RoutedMixture, ...] = (*LOOPS, *MIXTURES)


def run_name(run: TracedLoop | RoutedMixture) -> str:
    """Return what a run is called in a study: its file without what ends it."""
    return run.name.lower().replace(", ", "-")


def record_runs(folder: Path, runs: Sequence[TracedLoop | RoutedMixture] = RUNS) -> Iterator[Path]:
    """Trace runs one after the other, write each into a folder, and yield its file."""
    for run in runs:
        path = folder / f"{run_name(run)}{RECORDED_TRACE.suffixes[0]}"
        write_recorded_trace(run.trace(), path)
        yield path
