"""Real training steps under a plan and under PyTorch's allocators: bits, memory, time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from evaluation.benchmarks.measuring import allocation_pairs
from evaluation.benchmarks.measuring.allocation_pairs import pair_rows
from evaluation.benchmarks.measuring.checks_at_once import ChecksAtOnce
from evaluation.benchmarks.writing.page import Page
from gpu_runtime.train import require_sound
from gpu_runtime.training.allocator_comparison import AllocatorComparison, compare_allocators
from gpu_runtime.training.comparison_report import notes, study_table
from gpu_runtime.training.run_specification import (
    JUDGED,
    Allocator,
    Purpose,
    RunSpecification,
)
from gpu_runtime.training.worker_processes import run_worker
from gpu_runtime.training.worker_result import WorkerResult
from instances.extract.eager.trace_settings import TraceSettings
from planners.command_line.progress_line import show_progress
from planners.errors import GaplessError, near_names

STEPS = 5


def _case(model: str, settings: TraceSettings, **shape: int | bool) -> RunSpecification:
    return RunSpecification(
        Purpose.CHECK, Allocator.DEFAULT, model, shape, replace(settings, steps=STEPS)
    )


CASES = (
    _case("bert-base", TraceSettings(), batch=32, seq=512),
    _case("gpt2-medium", TraceSettings(microbatches=4), batch=8, seq=1024, checkpointing=True),
    _case("resnet-50", TraceSettings(), batch=128),
    _case("mobilenet-v2", TraceSettings(optimizer="sgd"), batch=128),
)

PAIRS_PART = "pairs"
PARTS = (*(case.model for case in CASES), PAIRS_PART)


def training_page(
    command: str,
    timed_steps: int,
    only: Sequence[str] = PARTS,
    run: Callable[[RunSpecification], WorkerResult] = run_worker,
    open_turns: allocation_pairs.OpenTurns | None = None,
    *,
    checks_at_once: bool = False,
) -> Page:
    """Run every case under every allocator, and time pairs of requests."""
    for name in only:
        if name not in PARTS:
            raise GaplessError(f"--only: no part is called {name!r}; {near_names(name, PARTS)}")
    if checks_at_once:
        run = ChecksAtOnce(run)
    page = Page("Training under a plan", command)
    page.say(
        "Peaks of memory in GiB over the timed steps, *whole run* with the first steps, which come "
        "before a plan, and *device* what the driver says the process took. Efficiency is "
        "allocated / reserved, the best in bold; *over plan* is reserved / plan - 1. Step times by "
        "CUDA events from step to step, the median and the worst; *to default* compares medians. "
        "Every row is a process of its own; bits are compared in others, with deterministic "
        "algorithms. [The columns](../training.md#the-table) in full."
    )
    cases = [case for case in CASES if case.model in only]
    for position, case in enumerate(cases):
        specification = replace(case, timed_steps=timed_steps)
        require_sound(specification)
        findings = AllocatorComparison()
        compare_allocators(specification, JUDGED, findings, _listen, run)
        if position == 0:
            page.say(_environment(findings))
        _add_case(page, specification, findings)
    if PAIRS_PART in only:
        _add_pairs(page, open_turns)
    return page


def _add_pairs(page: Page, open_turns: allocation_pairs.OpenTurns | None) -> None:
    page.say("## Pairs of requests")
    page.say(
        f"An allocation of {allocation_pairs.PAIR_BYTES >> 20} MiB and its deletion, in loops of "
        f"{allocation_pairs.PAIRS:,}: in C++, which asks PyTorch's allocator of the device and "
        f"does nothing else, and in Python, by `torch.empty`, most of which is not allocation. "
        f"The rows take turns on one core, {allocation_pairs.TURNS} times in each of "
        f"{allocation_pairs.ROUNDS} rounds of fresh processes; *median to native* is the median "
        f"over the turns of a row's time to that of the same loop under the native allocator, in "
        f"the same turn."
    )
    page.table(allocation_pairs.HEADINGS, pair_rows(open_turns))


def _add_case(page: Page, specification: RunSpecification, findings: AllocatorComparison) -> None:
    page.say(f"## {specification.model}")
    page.say(f"`{specification.command}`")
    if findings.timings:
        page.say(study_table(findings).markdown())
    failures = [f"{label}: {message}" for label, message in findings.failures.items()]
    page.say("\n".join(f"- {line}" for line in [*notes(findings), *failures]))


def _environment(findings: AllocatorComparison) -> str:
    known = next((timing.environment for timing in findings.timings.values()), {})
    return "; ".join(f"{name} {value}" for name, value in known.items())


def _listen(specification: RunSpecification, seconds: float | None) -> None:
    took = "" if seconds is None else f": {seconds:.1f} s"
    show_progress(f"{specification.model}, {specification.label}{took}")
