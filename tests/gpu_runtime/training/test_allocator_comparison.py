"""A study runs every check, then every timing, and keeps what it has whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpu_runtime.allocator.memory_report import MemoryReport
from gpu_runtime.training.allocator_comparison import AllocatorComparison, compare_allocators
from gpu_runtime.training.run_specification import JUDGED, Allocator, Purpose, RunSpecification
from gpu_runtime.training.worker_result import Failure, WorkerResult
from planners.errors import GaplessError
from tests.gpu_runtime.training.worker_results import (
    CHECK,
    PLAN,
    SPECIFICATION,
    TIME,
    planned_check,
    planned_time,
)

EVERY = JUDGED


class Workers:
    """Gives results as workers would, and remembers what they were to do."""

    def __init__(
        self, change: Callable[[RunSpecification], WorkerResult | None] = lambda _: None
    ) -> None:
        self.change = change
        self.specifications: list[RunSpecification] = []

    def __call__(self, specification: RunSpecification) -> WorkerResult:
        self.specifications.append(specification)
        changed = self.change(specification)
        if changed is not None:
            return changed
        if specification.allocator is Allocator.PLANNED:
            return planned_check() if specification.purpose is Purpose.CHECK else planned_time()
        return CHECK if specification.purpose is Purpose.CHECK else TIME


def study(workers: Workers, allocators: tuple[Allocator, ...] = EVERY) -> AllocatorComparison:
    comparison = AllocatorComparison()
    compare_allocators(SPECIFICATION, allocators, comparison, lambda *_: None, workers)
    return comparison


def test_checks_come_before_timings() -> None:
    workers = Workers()
    comparison = study(workers)
    assert [specification.label for specification in workers.specifications] == [
        "check default", "check expandable", "check planned",
        "time default", "time expandable", "time planned",
    ]  # fmt: skip
    same = {"purpose": SPECIFICATION.purpose, "allocator": SPECIFICATION.allocator}
    assert all(replace(its, **same) == SPECIFICATION for its in workers.specifications)
    assert comparison.passed
    assert comparison.agreement is not None
    assert comparison.agreement.compared == EVERY


def test_progress_is_told_before_and_after() -> None:
    told: list[tuple[str, bool]] = []
    compare_allocators(
        SPECIFICATION,
        (Allocator.DEFAULT,),
        AllocatorComparison(),
        lambda specification, seconds: told.append((specification.label, seconds is None)),
        Workers(),
    )
    assert told == [("check default", True), ("check default", False),
                    ("time default", True), ("time default", False)]  # fmt: skip


def test_without_a_deterministic_algorithm_every_check_is_made_again() -> None:
    def refuse(specification: RunSpecification) -> WorkerResult | None:
        if (
            specification.purpose is Purpose.CHECK
            and specification.allocator is Allocator.EXPANDABLE
            and specification.strict
        ):
            return Failure("no", undetermined="max_pool_backward")
        return None

    workers = Workers(refuse)
    comparison = study(workers)
    assert [(its.allocator, its.strict) for its in workers.specifications[:5]] == [
        (Allocator.DEFAULT, True), (Allocator.EXPANDABLE, True),
        (Allocator.DEFAULT, False), (Allocator.EXPANDABLE, False), (Allocator.PLANNED, False),
    ]  # fmt: skip
    assert comparison.passed
    assert comparison.undetermined == ("max_pool_backward",)


def test_no_strict_check_is_compared_with_one_that_is_not() -> None:
    def refuse(specification: RunSpecification) -> WorkerResult | None:
        if specification.label == "check default" and not specification.strict:
            return Failure("died")
        if specification.label == "check expandable" and specification.strict:
            return Failure("no", undetermined="max_pool_backward")
        return None

    assert list(study(Workers(refuse)).checks) == [Allocator.EXPANDABLE, Allocator.PLANNED]


def test_what_failed_before_all_is_made_again_does_not_count() -> None:
    def refuse(specification: RunSpecification) -> WorkerResult | None:
        if specification.label == "check default" and specification.strict:
            return Failure("died")
        if specification.label == "check expandable" and specification.strict:
            return Failure("no", undetermined="max_pool_backward")
        return None

    comparison = study(Workers(refuse))
    assert comparison.failures == {}
    assert comparison.passed


def test_an_operator_that_is_refused_again_is_a_failure() -> None:
    comparison = study(Workers(lambda specification: Failure("no", undetermined="op")
                              if specification.purpose is Purpose.CHECK else None))  # fmt: skip
    assert set(comparison.failures) == {"check default", "check expandable", "check planned"}
    assert not comparison.passed


def test_a_worker_that_fails_does_not_stop_the_others() -> None:
    comparison = study(Workers(lambda specification: Failure("out of memory: much")
                              if specification.label == "time default" else None))  # fmt: skip
    assert comparison.failures == {"time default": "out of memory: much"}
    assert set(comparison.timings) == {Allocator.EXPANDABLE, Allocator.PLANNED}
    assert not comparison.passed


def test_what_would_fail_everywhere_ends_the_study() -> None:
    workers = Workers(lambda _: Failure("no CUDA device", is_general=True))
    with pytest.raises(GaplessError, match="no CUDA device"):
        study(workers)
    assert len(workers.specifications) == 1


def test_an_interrupted_study_keeps_what_it_has() -> None:
    def interrupt(specification: RunSpecification) -> WorkerResult | None:
        if specification.label == "check planned":
            raise KeyboardInterrupt
        return None

    comparison = AllocatorComparison()
    with pytest.raises(KeyboardInterrupt):
        compare_allocators(SPECIFICATION, EVERY, comparison, lambda *_: None, Workers(interrupt))
    assert list(comparison.checks) == [Allocator.DEFAULT, Allocator.EXPANDABLE]


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize(
    "plan", [replace(PLAN, planned_steps=0), replace(PLAN, planned_requests=0), None]
)
def test_a_plan_that_served_nothing_does_not_pass(
    purpose: Purpose, plan: MemoryReport | None
) -> None:
    def unplanned(specification: RunSpecification) -> WorkerResult | None:
        if specification.purpose is not purpose or specification.allocator is not Allocator.PLANNED:
            return None
        return replace(CHECK if purpose is Purpose.CHECK else TIME, plan=plan)

    comparison = study(Workers(unplanned))
    assert comparison.nothing_was_planned
    assert not comparison.passed


def test_different_bits_do_not_pass() -> None:
    comparison = study(Workers(lambda specification: replace(CHECK, buffers={}, plan=PLAN)
                              if specification.label == "check planned" else None))  # fmt: skip
    assert not comparison.passed
    assert not comparison.failures


def test_one_allocator_alone_has_nothing_to_agree_with() -> None:
    comparison = study(Workers(), (Allocator.PLANNED,))
    assert comparison.agreement is None
    assert comparison.passed
