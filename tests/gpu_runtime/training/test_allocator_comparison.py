"""A study runs every check, then every timing, and keeps what it has whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.allocator_comparison import AllocatorComparison, compare_allocators
from gpu_runtime.training.run_specification import Allocator, Purpose, RunSpecification
from gpu_runtime.training.worker_result import Answer, Failure
from planners.errors import GaplessError
from tests.gpu_runtime.training.worker_results import (
    CHECK,
    JOB,
    PLAN,
    TIME,
    planned_check,
    planned_time,
)

EVERY = tuple(Allocator)


class Children:
    """Answers as children would, and remembers the jobs."""

    def __init__(
        self, change: Callable[[RunSpecification], Answer | None] = lambda _: None
    ) -> None:
        self.change = change
        self.jobs: list[RunSpecification] = []

    def __call__(self, job: RunSpecification) -> Answer:
        self.jobs.append(job)
        changed = self.change(job)
        if changed is not None:
            return changed
        if job.allocator is Allocator.PLANNED:
            return planned_check() if job.purpose is Purpose.CHECK else planned_time()
        return CHECK if job.purpose is Purpose.CHECK else TIME


def study(children: Children, allocators: tuple[Allocator, ...] = EVERY) -> AllocatorComparison:
    findings = AllocatorComparison()
    compare_allocators(JOB, allocators, findings, lambda *_: None, children)
    return findings


def test_checks_come_before_timings() -> None:
    children = Children()
    findings = study(children)
    assert [job.label for job in children.jobs] == [
        "check default", "check expandable", "check planned",
        "time default", "time expandable", "time planned",
    ]  # fmt: skip
    assert all(replace(job, purpose=JOB.purpose, allocator=JOB.allocator) == JOB
               for job in children.jobs)  # fmt: skip
    assert findings.passed
    assert findings.agreement is not None
    assert findings.agreement.compared == EVERY


def test_progress_is_told_before_and_after() -> None:
    told: list[tuple[str, bool]] = []
    compare_allocators(
        JOB,
        (Allocator.DEFAULT,),
        AllocatorComparison(),
        lambda job, seconds: told.append((job.label, seconds is None)),
        Children(),
    )
    assert told == [("check default", True), ("check default", False),
                    ("time default", True), ("time default", False)]  # fmt: skip


def test_without_a_deterministic_algorithm_every_check_is_made_again() -> None:
    def refuse(job: RunSpecification) -> Answer | None:
        if job.purpose is Purpose.CHECK and job.allocator is Allocator.EXPANDABLE and job.strict:
            return Failure("no", undetermined="max_pool_backward")
        return None

    children = Children(refuse)
    findings = study(children)
    assert [(job.allocator, job.strict) for job in children.jobs[:5]] == [
        (Allocator.DEFAULT, True), (Allocator.EXPANDABLE, True),
        (Allocator.DEFAULT, False), (Allocator.EXPANDABLE, False), (Allocator.PLANNED, False),
    ]  # fmt: skip
    assert findings.passed
    assert findings.undetermined == ("max_pool_backward",)


def test_no_strict_check_is_compared_with_one_that_is_not() -> None:
    def refuse(job: RunSpecification) -> Answer | None:
        if job.label == "check default" and not job.strict:
            return Failure("died")
        if job.label == "check expandable" and job.strict:
            return Failure("no", undetermined="max_pool_backward")
        return None

    assert list(study(Children(refuse)).checks) == [Allocator.EXPANDABLE, Allocator.PLANNED]


def test_what_failed_before_all_is_made_again_does_not_count() -> None:
    def refuse(job: RunSpecification) -> Answer | None:
        if job.label == "check default" and job.strict:
            return Failure("died")
        if job.label == "check expandable" and job.strict:
            return Failure("no", undetermined="max_pool_backward")
        return None

    findings = study(Children(refuse))
    assert findings.failures == {}
    assert findings.passed


def test_an_operator_that_is_refused_again_is_a_failure() -> None:
    findings = study(Children(lambda job: Failure("no", undetermined="op")
                              if job.purpose is Purpose.CHECK else None))  # fmt: skip
    assert set(findings.failures) == {"check default", "check expandable", "check planned"}
    assert not findings.passed


def test_a_child_that_fails_does_not_stop_the_others() -> None:
    findings = study(Children(lambda job: Failure("out of memory: much")
                              if job.label == "time default" else None))  # fmt: skip
    assert findings.failures == {"time default": "out of memory: much"}
    assert set(findings.timings) == {Allocator.EXPANDABLE, Allocator.PLANNED}
    assert not findings.passed


def test_what_would_fail_everywhere_ends_the_study() -> None:
    children = Children(lambda _: Failure("no CUDA device", is_general=True))
    with pytest.raises(GaplessError, match="no CUDA device"):
        study(children)
    assert len(children.jobs) == 1


def test_an_interrupted_study_keeps_what_it_has() -> None:
    def interrupt(job: RunSpecification) -> Answer | None:
        if job.label == "check planned":
            raise KeyboardInterrupt
        return None

    findings = AllocatorComparison()
    with pytest.raises(KeyboardInterrupt):
        compare_allocators(JOB, EVERY, findings, lambda *_: None, Children(interrupt))
    assert list(findings.checks) == [Allocator.DEFAULT, Allocator.EXPANDABLE]


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize(
    "plan", [replace(PLAN, planned_steps=0), replace(PLAN, planned_requests=0), None]
)
def test_a_plan_that_served_nothing_does_not_pass(
    purpose: Purpose, plan: MemoryReport | None
) -> None:
    def unplanned(job: RunSpecification) -> Answer | None:
        if job.purpose is not purpose or job.allocator is not Allocator.PLANNED:
            return None
        return replace(CHECK if purpose is Purpose.CHECK else TIME, plan=plan)

    findings = study(Children(unplanned))
    assert findings.nothing_was_planned
    assert not findings.passed


def test_different_bits_do_not_pass() -> None:
    findings = study(Children(lambda job: replace(CHECK, buffers={}, plan=PLAN)
                              if job.label == "check planned" else None))  # fmt: skip
    assert not findings.passed
    assert not findings.failures


def test_one_allocator_alone_has_nothing_to_agree_with() -> None:
    findings = study(Children(), (Allocator.PLANNED,))
    assert findings.agreement is None
    assert findings.passed
