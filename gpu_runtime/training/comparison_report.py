"""The findings of a training under several allocators: a table, and one JSON object."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.agreement import Agreement
from gpu_runtime.training.comparison import AllocatorComparison
from gpu_runtime.training.run_result import PeakFigures, RunResult
from gpu_runtime.training.training_run import Allocator, RegisteredModel, TrainingRun
from planners.text.table import Row, Table, and_more, columns_of

# Version 2 has the step times by turn.
SCHEMA_VERSION = 2
GIB = 1 << 30

NOTHING = "-"
SHOWN_MISMATCHES = 5

COLUMNS = columns_of(
    "allocator", "requested", "allocated", "reserved", "efficiency", "arena", "PyTorch",
    "whole\nrun", "device", "step\nms", "worst\nms", "to\ndefault", "fallback", "mismatches",
)  # fmt: skip
UNITS = (
    "memory in GiB, peaks of the timed steps; efficiency: allocated / reserved; PyTorch: what the "
    "better of its two allocators would reserve; whole run: reserved, first steps included; "
    "device: taken by the process"
)


def study_table(findings: AllocatorComparison) -> Table:
    """Return one row an allocator; the row of the highest memory efficiency is marked."""
    timings = findings.timings
    best = max(
        (timing.peaks.efficiency for timing in timings.values() if timing.peaks), default=None
    )
    rows = []
    for allocator, timing in timings.items():
        is_best = timing.peaks is not None and timing.peaks.efficiency == best
        cells = _cells(allocator, timing, findings)
        rows.append(Row.best(cells) if is_best else Row(cells))
    return Table(COLUMNS, rows, is_marked=True, turns=True)


def notes(findings: AllocatorComparison) -> list[str]:
    lines = []
    planned = findings.timings.get(Allocator.PLANNED)
    if planned is not None and planned.plan is not None and planned.plan.planned_steps:
        lines += _plan_notes(planned.plan)
    lines += [
        f"plan by {label}: {timing.note}"
        for label, timing in findings.timings.items()
        if timing.note
    ]
    if findings.undetermined:
        lines.append(f"no deterministic algorithm for {', '.join(findings.undetermined)}")
    if findings.nothing_was_planned:
        lines.append(
            "no step was served by the plan: planning begins after the third step, once two steps "
            "made the same requests"
        )
        lines += [f"{label}: {reason}" for label, reason in findings.reasons_without_plan()]
    if findings.agreement is not None:
        lines += _verdict(findings.agreement)
    elif findings.checks:
        lines.append("no bits were compared: a comparison needs checks of two allocators")
    return lines


def study_record(
    run: TrainingRun, model: RegisteredModel, findings: AllocatorComparison
) -> dict[str, Any]:
    agreement = findings.agreement
    environments = [timing.environment for timing in findings.timings.values()]
    return {
        "schema": "gapless-training",
        "version": SCHEMA_VERSION,
        "command": f"python -m gpu_runtime.train {model.arguments}",
        "model": model.name,
        "shape": model.shape,
        "settings": asdict(model.settings),
        "warm_up": run.warm_up,
        "timed_steps": run.turns * run.turn_steps,
        "turns": run.turns,
        "seed": run.seed,
        "planner": run.planner,
        "time_limit": run.time_limit,
        "models": list(model.files),
        "environment": environments[0] if environments else {},
        "passed": findings.passed,
        "bit_identical": None if agreement is None else agreement.is_bit_identical,
        "agreement": None if agreement is None else asdict(agreement),
        "undetermined": list(findings.undetermined),
        "checks": {
            allocator: {"plan": None if check.plan is None else asdict(check.plan)}
            for allocator, check in findings.checks.items()
        },
        "timings": {
            allocator: _timing_record(timing) for allocator, timing in findings.timings.items()
        },
        "failures": findings.failures,
    }


def step_ratio(timing: RunResult, other: RunResult) -> float:
    """Return the median over turns of the ratio of the median step times of two runs."""
    pairs = zip(timing.step_seconds, other.step_seconds, strict=True)
    return statistics.median(
        statistics.median(its) / statistics.median(theirs) for its, theirs in pairs
    )


def gib(size: int | None) -> str:
    return NOTHING if size is None else f"{size / GIB:,.3f}"


def _cells(
    allocator: Allocator, timing: RunResult, findings: AllocatorComparison
) -> tuple[str, ...]:
    peaks, plan = timing.peaks, timing.plan
    every = timing.every_step
    default = findings.timings.get(Allocator.DEFAULT)
    return (
        str(allocator),
        *_peak_cells(peaks),
        NOTHING if plan is None else gib(plan.arena_bytes),
        NOTHING if plan is None else gib(plan.pytorch_bytes),
        gib(timing.whole_run_reserved),
        gib(timing.device_bytes),
        f"{statistics.median(every) * 1e3:.3f}",
        f"{max(every) * 1e3:.3f}",
        NOTHING if default is None else f"{step_ratio(timing, default) - 1:+.2%}",
        NOTHING if plan is None else f"{plan.unexpected_requests:,}",
        NOTHING if plan is None else _mismatch_cell(plan),
    )


def _peak_cells(peaks: PeakFigures | None) -> list[str]:
    if peaks is None:
        return [NOTHING] * 4
    sizes = (peaks.requested, peaks.allocated, peaks.reserved)
    return [*map(gib, sizes), f"{peaks.efficiency:.3%}"]


def _plan_notes(plan: MemoryReport) -> list[str]:
    again = f" (the last of {plan.plans})" if plan.plans > 1 else ""
    lines = [
        f"plan by {plan.planner}, {plan.status}{again}: arena {plan.arena_bytes:,} "
        f"bytes, lower bound {plan.lower_bound:,}; {plan.planned_steps} of {plan.steps} steps "
        f"followed it; PyTorch would reserve at least {gib(plan.pytorch_bytes)} GiB"
    ]
    shown = plan.mismatches[:SHOWN_MISMATCHES]
    lines += [f"mismatch: {mismatch}" for mismatch in shown]
    return lines + and_more(sum(plan.mismatch_counts.values()), len(shown))


def _mismatch_cell(plan: MemoryReport) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in plan.mismatch_counts.items()) or "0"


def _verdict(agreement: Agreement) -> Sequence[str]:
    count = agreement.losses_not_finite
    not_finite = f" ({count:,} of them not finite)" if count else ""
    compared = (
        f"{_plural(agreement.losses, 'loss', 'es')}{not_finite}, "
        f"{_plural(agreement.gradients, 'gradient')} of "
        f"{_plural(agreement.steps, 'step')}, {_plural(agreement.parameters, 'parameter')} and "
        f"{_plural(agreement.buffers, 'buffer')} at the end, under {', '.join(agreement.compared)}"
    )
    if agreement.is_bit_identical:
        return [f"bit-identical: {compared}"]
    return [f"NOT bit-identical ({compared}):", *map(str, agreement.differences)]


def _timing_record(timing: RunResult) -> dict[str, Any]:
    return {
        **msgspec.to_builtins(timing),
        "efficiency": None if timing.peaks is None else timing.peaks.efficiency,
        "median_step_seconds": statistics.median(timing.every_step),
        "worst_step_seconds": max(timing.every_step),
    }


def _plural(count: int, noun: str, ending: str = "s") -> str:
    return f"{count:,} {noun}{'' if count == 1 else ending}"
