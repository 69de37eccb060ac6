"""The same training steps under every allocator: check them all, then time them all."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.agreement import Agreement, compare
from gpu_runtime.training.run_specification import Allocator, Purpose, RunSpecification
from gpu_runtime.training.worker_processes import run_child
from gpu_runtime.training.worker_result import Answer, CheckResult, Failure, TimeResult
from planners.errors import GaplessError

# Called with what runs now, and again with its seconds when it has ended.
Listen = Callable[[RunSpecification, float | None], None]


@dataclass
class AllocatorComparison:
    """What was found so far."""

    # Answers by allocator, in the order in which they came.
    checks: dict[Allocator, CheckResult] = field(default_factory=dict)
    timings: dict[Allocator, TimeResult] = field(default_factory=dict)
    # What went wrong, by the job's label.
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
        return [(purpose, answer.plan) for purpose, answer in planned.items() if answer is not None]

    @property
    def passed(self) -> bool:
        """Whether everything ran, the same bits came out, and the plan served steps."""
        agreement = self.agreement
        agrees = agreement is None or agreement.is_bit_identical
        return agrees and not self.failures and not self.nothing_was_planned


def compare_allocators(
    job: RunSpecification,
    allocators: tuple[Allocator, ...],
    findings: AllocatorComparison,
    listen: Listen,
    run: Callable[[RunSpecification], Answer] = run_child,
) -> None:
    """Run a job for every purpose under every allocator, one process after the other."""

    def answer_to(purpose: Purpose, allocator: Allocator, strict: bool) -> Answer:
        its = replace(job, purpose=purpose, allocator=allocator, strict=strict)
        listen(its, None)
        begun = time.perf_counter()
        answer = run(its)
        listen(its, time.perf_counter() - begun)
        if isinstance(answer, Failure) and answer.is_general:
            raise GaplessError(answer.message)
        return answer

    strict, pending = True, list(allocators)
    while pending:
        answer = answer_to(Purpose.CHECK, pending[0], strict)
        if isinstance(answer, Failure) and answer.undetermined and strict:
            # All over again, all alike: what was strict is not compared with what is not.
            strict, pending = False, list(allocators)
            findings.checks.clear()
            findings.failures.clear()
            findings.undetermined = (answer.undetermined,)
            continue
        _keep(findings, Purpose.CHECK, pending.pop(0), answer)
    for allocator in allocators:
        answer = answer_to(Purpose.TIME, allocator, strict)
        _keep(findings, Purpose.TIME, allocator, answer)


def _keep(
    findings: AllocatorComparison, purpose: Purpose, allocator: Allocator, answer: Answer
) -> None:
    if isinstance(answer, Failure):
        findings.failures[f"{purpose} {allocator}"] = answer.message
    elif isinstance(answer, CheckResult):
        findings.checks[allocator] = answer
        known = {*findings.undetermined, *answer.undetermined}
        findings.undetermined = tuple(sorted(known))
    else:
        findings.timings[allocator] = answer
