"""Files of the runs that studies of online allocators replay, traced without a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation.recordings.routed_mixture import MIXTURES, RoutedMixture
from instances.extract.record.recording import record
from instances.extract.record.trace_settings import TraceSettings
from instances.formats.recorded_trace import RECORDED_TRACE, write_recorded_trace
from instances.traces.allocation_trace import AllocationTrace
from planners.text.progress_line import show_progress

# Steps of a recording, of which the later ones may be planned.
STEPS = 6


@dataclass(frozen=True)
class TracedLoop:
    """A training loop that is traced on fake tensors."""

    model: str
    settings: TraceSettings
    shape: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model

    def trace(self) -> AllocationTrace:
        """Return all requests of the loop."""
        return record(self.model, self.settings, "fake", show_progress, **self.shape)


LOOPS = (
    TracedLoop("bert-base", TraceSettings(STEPS), {"batch": 32, "seq": 512}),
    TracedLoop("gpt2-medium", TraceSettings(STEPS, microbatches=4),
               {"batch": 8, "seq": 1024, "checkpointing": True}),
    TracedLoop("resnet-50", TraceSettings(STEPS), {"batch": 128}),
    TracedLoop("mobilenet-v2", TraceSettings(STEPS, optimizer="sgd"), {"batch": 128}),
)  # fmt: skip


RUNS: tuple[TracedLoop | RoutedMixture, ...] = (*LOOPS, *MIXTURES)


def run_name(run: TracedLoop | RoutedMixture) -> str:
    """Return the name of a run in a study: the name of its file without the suffix."""
    return run.name.lower().replace(", ", "-")


def record_runs(folder: Path, runs: Sequence[TracedLoop | RoutedMixture] = RUNS) -> Iterator[Path]:
    """Trace runs one after the other, write each into a folder, and yield its file."""
    for run in runs:
        path = folder / f"{run_name(run)}{RECORDED_TRACE.suffixes[0]}"
        write_recorded_trace(run.trace(), path)
        yield path
