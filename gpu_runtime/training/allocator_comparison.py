"""The same training steps under every allocator: check them all, then time them all."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.agreement import Agreement, compare
from gpu_runtime.training.run_specification import Allocator, Purpose, RunSpecification
from gpu_runtime.training.worker_processes import run_worker
from gpu_runtime.training.worker_result import CheckResult, Failure, TimeResult, WorkerResult
from planners.errors import GaplessError

# Called with what runs now, and again with its seconds when it has ended.
Listen = Callable[[RunSpecification, float | None], None]


@dataclass
class AllocatorComparison:
    """What was found so far."""

    # By allocator, in the order in which they came.
    checks: dict[Allocator, CheckResult] = field(default_factory=dict)
    timings: dict[Allocator, TimeResult] = field(default_factory=dict)
    # What went wrong, by the label of the run.
    failures: dict[str, str] = field(default_factory=dict)
    # Operators for want of whose deterministic algorithm the checks were not strict.
    undetermined: tuple[str, ...] = ()

    @property
    def agreement(self) -> Agreement | None:
        """Which bits are the same; none before two runs can be compared."""
        return compare(self.checks) if len(self.checks) > 1 else None

    @property
    def nothing_was_planned(self) -> bool:
        """Whether the plan served nothing of a run that it should have served."""
        return any(
            plan is None or not plan.planned_steps or not plan.planned_requests
            for _, plan in self._plans()
        )

    def reasons_without_plan(self) -> list[tuple[Purpose, str]]:
        """Return why there is no plan, for each purpose whose run says so."""
        return [(purpose, plan.reason) for purpose, plan in self._plans() if plan and plan.reason]

    def _plans(self) -> list[tuple[Purpose, MemoryReport | None]]:
        planned = {
            Purpose.CHECK: self.checks.get(Allocator.PLANNED),
            Purpose.TIME: self.timings.get(Allocator.PLANNED),
        }
        return [(purpose, result.plan) for purpose, result in planned.items() if result is not None]

    @property
    def passed(self) -> bool:
        """Whether everything ran, the same bits came out, and the plan served steps."""
        agreement = self.agreement
        agrees = agreement is None or agreement.is_bit_identical
        return agrees and not self.failures and not self.nothing_was_planned


def compare_allocators(
    specification: RunSpecification,
    allocators: tuple[Allocator, ...],
    comparison: AllocatorComparison,
    listen: Listen,
    run: Callable[[RunSpecification], WorkerResult] = run_worker,
) -> None:
    """Do a run for every purpose under every allocator, one process after the other.

    The purpose and the allocator of the specification do not count; the first allocator is the one
    that the others are compared with. The comparison is filled as results come, so that an
    interrupt leaves what there is. Raises GaplessError where a worker failed as all others would.
    """

    def run_one(purpose: Purpose, allocator: Allocator, strict: bool) -> WorkerResult:
        its = replace(specification, purpose=purpose, allocator=allocator, strict=strict)
        listen(its, None)
        begun = time.perf_counter()
        result = run(its)
        listen(its, time.perf_counter() - begun)
        if isinstance(result, Failure) and result.is_general:
            raise GaplessError(result.message)
        return result

    strict, pending = True, list(allocators)
    while pending:
        result = run_one(Purpose.CHECK, pending[0], strict)
        if isinstance(result, Failure) and result.undetermined and strict:
            # All over again, all alike: what was strict is not compared with what is not.
            strict, pending = False, list(allocators)
            comparison.checks.clear()
            comparison.failures.clear()
            comparison.undetermined = (result.undetermined,)
            continue
        _keep(comparison, Purpose.CHECK, pending.pop(0), result)
    for allocator in allocators:
        result = run_one(Purpose.TIME, allocator, strict)
        _keep(comparison, Purpose.TIME, allocator, result)


def _keep(
    comparison: AllocatorComparison, purpose: Purpose, allocator: Allocator, result: WorkerResult
) -> None:
    if isinstance(result, Failure):
        comparison.failures[f"{purpose} {allocator}"] = result.message
    elif isinstance(result, CheckResult):
        comparison.checks[allocator] = result
        known = {*comparison.undetermined, *result.undetermined}
        comparison.undetermined = tuple(sorted(known))
    else:
        comparison.timings[allocator] = result
