"""Real training steps under a plan and under PyTorch's allocators: bits, memory, time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from evaluation.benchmarks.measuring import allocation_pairs
from evaluation.benchmarks.measuring.allocation_pairs import pair_rows
from evaluation.benchmarks.measuring.checks_at_once import ChecksAtOnce
from evaluation.benchmarks.pages.worded_page import WordedPage, table_of
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
) -> WordedPage:
    """Run every case under every allocator, and time pairs of requests."""
    for name in only:
        if name not in PARTS:
            raise GaplessError(f"--only: no part is called {name!r}; {near_names(name, PARTS)}")
    if checks_at_once:
        run = ChecksAtOnce(run)
    models, environment = [], ""
    for case in CASES:
        if case.model in only:
            specification = replace(case, timed_steps=timed_steps)
            require_sound(specification)
            findings = AllocatorComparison()
            compare_allocators(specification, JUDGED, findings, _listen, run)
            environment = environment or _environment(findings)
            models.append(_model(specification, findings))
    figures = {"environment": environment, "models": "\n\n".join(models)}
    return WordedPage("training", command, figures | _pairs(open_turns, chosen=PAIRS_PART in only))


def _pairs(open_turns: allocation_pairs.OpenTurns | None, *, chosen: bool) -> dict[str, str]:
    """Return what is shown of pairs of requests, which is nothing where they are not chosen."""
    if not chosen:
        return dict.fromkeys(("pair-mib", "pair-count", "pair-turns", "pair-rounds", "pairs"), "")
    return {
        "pair-mib": str(allocation_pairs.PAIR_BYTES >> 20),
        "pair-count": f"{allocation_pairs.PAIRS:,}",
        "pair-turns": str(allocation_pairs.TURNS),
        "pair-rounds": str(allocation_pairs.ROUNDS),
        "pairs": table_of(allocation_pairs.HEADINGS, pair_rows(open_turns)),
    }


def _model(specification: RunSpecification, findings: AllocatorComparison) -> str:
    table = [study_table(findings).markdown()] if findings.timings else []
    failures = [f"{label}: {message}" for label, message in findings.failures.items()]
    lines = "\n".join(f"- {line}" for line in [*notes(findings), *failures])
    return "\n\n".join([f"## {specification.model}", f"`{specification.command}`", *table, lines])


def _environment(findings: AllocatorComparison) -> str:
    known = next((timing.environment for timing in findings.timings.values()), {})
    return "; ".join(f"{name} {value}" for name, value in known.items())


def _listen(specification: RunSpecification, seconds: float | None) -> None:
    took = "" if seconds is None else f": {seconds:.1f} s"
    show_progress(f"{specification.model}, {specification.label}{took}")
