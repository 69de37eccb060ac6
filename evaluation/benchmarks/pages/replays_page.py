"""What online allocators reserve for runs that were traced without a GPU, or for recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from evaluation.benchmarks.writing.figure import Figure, efficiency
from evaluation.benchmarks.writing.page import Page
from instances.extract.eager.recording import record
from instances.extract.eager.trace_settings import TraceSettings
from instances.traces.trace_requests import requests_of_trace
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError
from planners.files.formats import read_requests
from planners.model.online_result import OnlineTerms
from planners.model.request_sequence import RequestSequence
from planners.online.online_run import OnlineRow, OnlineRun, run_online
from planners.registry import choose_online
from planners.text.byte_units import counted

# Of which the later ones may be planned.
STEPS = 6
BYTES_PER_GIB = 1 << 30


@dataclass(frozen=True)
class TracedLoop:
    """A training loop that is traced on fake tensors."""

    model: str
    settings: TraceSettings
    shape: dict[str, int | bool] = field(default_factory=dict)

    def trace(self) -> RequestSequence:
        """Return what the loop asks for."""
        return requests_of_trace(
            record(self.model, self.settings, "fake", show_progress, **self.shape)
        )


LOOPS = (
    TracedLoop("bert-base", TraceSettings(STEPS), {"batch": 32, "seq": 512}),
    TracedLoop("gpt2-medium", TraceSettings(STEPS, microbatches=4),
               {"batch": 8, "seq": 1024, "checkpointing": True}),
    TracedLoop("resnet-50", TraceSettings(STEPS), {"batch": 128}),
    TracedLoop("mobilenet-v2", TraceSettings(STEPS, optimizer="sgd"), {"batch": 128}),
)  # fmt: skip


def replays_page(files: Sequence[Path], command: str, loops: Sequence[TracedLoop] = LOOPS) -> Page:
    """Replay recordings, or loops that are traced here where none is given."""
    page = Page("Replays under online allocators", command)
    page.say(
        "Every request of a run, made to each online allocator over a device of accounts with "
        "memory to spare. Peaks in GiB; efficiency is allocated / reserved, the least reserved in "
        "bold; *stalls* are device calls in which the host waits. All is counted and nothing "
        "timed. [What this is](../replaying.md)."
    )
    sources: list[Callable[[], RequestSequence]] = [loop.trace for loop in loops]
    if files:
        sources = [partial(read_requests, path) for path in files]
    else:
        page.say(
            f"The runs are {STEPS} iterations of training loops, traced without a GPU by "
            "`python -m instances.extract trace`."
        )
    for read in sources:
        requests = read()
        show_progress(f"{requests.name}: replaying")
        run = run_online(requests, choose_online("*"), OnlineTerms())
        if run.left_out:
            raise KeyboardInterrupt
        _add_run(page, run)
    return page


def _add_run(page: Page, run: OnlineRun) -> None:
    requests = run.requests
    page.say(f"## {requests.name}")
    page.say(f"{counted(requests.request_count, 'request')}.")
    page.table(
        ["allocator", "reserved", "allocated", "efficiency", "device calls", "stalls"],
        [_cells(run, row) for row in run.rows],
    )


def _cells(run: OnlineRun, row: OnlineRow) -> list[str | Figure]:
    result = row.result
    if result is None or row.reason:
        raise GaplessError(f"{run.requests.name}, {row.label}: {row.reason}; no page is written")
    reserved = f"{result.reserved_peak / BYTES_PER_GIB:.3f}"
    return [
        row.label,
        f"**{reserved}**" if run.is_best(row) else reserved,
        f"{result.allocated_peak / BYTES_PER_GIB:.3f}",
        efficiency(result.allocated_peak, result.reserved_peak),
        f"{result.call_count:,}",
        f"{result.stalls:,}",
    ]
