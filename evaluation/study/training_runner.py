"""Makes the runs of a study of training, and records those of a program when it has ended."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain, groupby
from statistics import median
from typing import Any

import msgspec
from msgspec.structs import replace

from evaluation.study.record import RunStatus, TrainingRecord
from evaluation.study.records_file import RecordsFile
from evaluation.study.run_task import now
from evaluation.study.runner import Progress, require_like
from evaluation.study.surroundings import commit, this_machine, versions
from evaluation.study.training_grid import TrainedProgram, TrainedRun
from gpu_runtime.training.comparison import AllocatorComparison, check_bits, time_in_turns
from gpu_runtime.training.run_processes import Start, waiting_run
from gpu_runtime.training.run_result import RunResult
from gpu_runtime.training.training_run import Allocator, Purpose, TrainingRun
from planners.model.problem import Scalar

OUT_OF_MEMORY = "out of memory"


def train_all(
    study: str,
    runs: Sequence[TrainedRun],
    file: RecordsFile,
    progress: Progress,
    show: Callable[[str], None],
    start: Start = waiting_run,
) -> None:
    """Train programs one after the other.

    The records of a program are appended in one piece when it has ended, so that an interruption
    leaves whole programs.
    """
    programs = [
        program.only([run.allocator for run in its])
        for program, its in groupby(runs, lambda run: run.program)
    ]
    for program in programs:
        if program.program is not None:
            program.program.require_packages()
    machines = [its.machine for its in file.known if not its.failed]
    for program, findings, moment in _trained(programs, show, start):
        records = [_record(study, program, run, findings, moment) for run in program.timed]
        machines += [its.machine for its in records if not its.failed]
        for machine in machines:
            require_like(machines[0], machine, file)
        file.append("\n".join(record.to_json() for record in records))
        progress.done += len(records)
        progress.failed += sum(record.failed for record in records)


def _trained(
    programs: Sequence[TrainedProgram], show: Callable[[str], None], start: Start
) -> Iterator[tuple[TrainedProgram, AllocatorComparison, datetime]]:
    def listen(run: TrainingRun) -> None:
        show(f"{run.program}, {run.label}")

    for grid, group in groupby(programs, lambda program: program.grid):
        its = list(group)
        turns = time_in_turns(
            [program.timed for program in its], listen, grid.programs_at_once, start
        )
        for program in its:
            moment, findings = now(), AllocatorComparison()
            check_bits(program.checks, findings, listen, grid.checks_at_once, start)
            for run, answer in next(turns):
                findings.keep(run, answer)
            yield program, findings, moment


def _record(
    study: str,
    program: TrainedProgram,
    run: TrainingRun,
    findings: AllocatorComparison,
    moment: datetime,
) -> TrainingRecord:
    timing = findings.timings.get(run.allocator)
    reason = findings.failures.get(f"{Purpose.TIME} {run.allocator}", "")
    status = RunStatus.FEASIBLE
    if timing is None:
        status = RunStatus.OUT_OF_MEMORY if OUT_OF_MEMORY in reason else RunStatus.CRASHED
    environment = timing.environment if timing else {}
    machine, device = this_machine(), environment.get("device")
    if device is not None:
        machine = replace(machine, processor=f"{machine.processor}, {device}")
    peaks = timing.peaks if timing else None
    return TrainingRecord(
        study=study,
        run=TrainedRun(program, run.allocator).key,
        asked=program.digest,
        instance=program.name,
        instance_digest=program.digest,
        planner=str(run.allocator),
        seed=run.seed,
        repetition=0,
        status=status,
        reason=reason or None,
        peak=peaks.reserved if peaks else None,
        allocated=peaks.allocated if peaks else None,
        statistics={
            **program.words,
            **_checked(findings, run.allocator),
            **(_timed(timing) if timing else {}),
        },
        timed=True,
        machine=machine,
        versions={**versions(), **environment},
        commit=commit(),
        moment=moment,
    )


def _checked(findings: AllocatorComparison, allocator: Allocator) -> dict[str, Scalar]:
    """Return a digest of all bits, and the first difference from the first allocator's bits."""
    said: dict[str, Scalar] = {}
    if findings.undetermined:
        said["undetermined"] = ", ".join(findings.undetermined)
    check = findings.checks.get(allocator)
    if check is None:
        reason = findings.failures.get(f"{Purpose.CHECK} {allocator}", "not run")
        return {**said, "check_failed": reason}
    every = msgspec.json.encode([check.losses, check.gradients, check.parameters, check.buffers])
    said["bits"] = hashlib.sha256(every).hexdigest()
    said["losses"] = sum(map(len, check.losses))
    said["gradients"] = sum(map(len, check.gradients))
    said["parameters"] = len(check.parameters)
    agreement = findings.agreement
    for difference in agreement.differences if agreement else ():
        if difference.allocator == allocator:
            said["differs"] = str(difference)
    return said


def _timed(timing: RunResult) -> dict[str, Scalar]:
    """Return the figures of the timed steps."""
    plan, counts, peaks = timing.plan, timing.counts, timing.peaks
    graphs = plan.graphs if plan else None
    optional: dict[str, Any] = {
        "requested": peaks.requested if peaks else None,
        "whole_run_reserved": timing.whole_run_reserved,
        "device_bytes": timing.device_bytes,
        "device_calls": counts.calls if counts else None,
        "host_waits": counts.host_waits if counts else None,
        "allocator_seconds": median(timing.allocator_seconds) if timing.allocator_seconds else None,
        "allocator_worst_seconds": max(timing.allocator_seconds, default=None),
        "allocator_events": max(timing.allocator_events, default=None),
        "fallback_share": timing.fallback_share,
        "arena_bytes": plan.arena_bytes if plan else None,
        "pytorch_bytes": plan.pytorch_bytes if plan else None,
        "requests_above_pytorch": plan.requests_above_pytorch if plan else None,
        "graph_bytes": graphs.shared_bytes + graphs.own_bytes if graphs else None,
        "graph_live_bytes": graphs.live_bytes if graphs else None,
        "graph_pytorch_bytes": graphs.pytorch_bytes if graphs else None,
        "plan_status": plan.status if plan else None,
        "plan_reason": (plan.reason or None) if plan else None,
        "plans": plan.plans if plan else None,
        "planned_steps": plan.planned_steps if plan else None,
        "mismatches": sum(plan.mismatch_counts.values()) if plan else None,
    }
    streams = chain.from_iterable(
        (
            (f"stream_{number}_role", its.role),
            (f"stream_{number}_busy_ms", its.busy_milliseconds),
            (f"stream_{number}_idle_ms", its.idle_milliseconds),
        )
        for number, its in enumerate(timing.streams, 1)
    )
    turns = enumerate(timing.step_seconds, 1)
    by_rank = chain.from_iterable(
        ((f"rank_{rank}_{name}", value) for name, value in _of_rank(its).items())
        for rank, its in enumerate(timing.by_rank)
    )
    return {
        "step_median_seconds": median(timing.every_step),
        "step_worst_seconds": max(timing.every_step),
        **{f"turn_{number}_seconds": median(steps) for number, steps in turns},
        **{name: value for name, value in optional.items() if value is not None},
        **dict(streams),
        **dict(by_rank),
    }


def _of_rank(timing: RunResult) -> dict[str, Scalar]:
    """Return the memory of one rank, what PyTorch would reserve there, and the allocator's time."""
    plan, peaks, spent = timing.plan, timing.peaks, timing.allocator_seconds
    figures: dict[str, Scalar | None] = {
        "reserved": peaks.reserved if peaks else None,
        "allocated": peaks.allocated if peaks else None,
        "pytorch_bytes": plan.pytorch_bytes if plan else None,
        "allocator_seconds": median(spent) if spent else None,
        "allocator_worst_seconds": max(spent, default=None),
    }
    return {name: value for name, value in figures.items() if value is not None}
