"""A line of a report is a planner on an instance, and repetitions and seeds are one line."""

from __future__ import annotations

from evaluation.pages.cases import cases_of
from evaluation.study.record import RunStatus
from tests.evaluation.study.made_up_records import record


def test_seeds_and_repetitions_are_one_case() -> None:
    records = [
        record("a", "search", peak, seed=seed, processor_seconds=seconds)
        for seed, (peak, seconds) in enumerate([(15, 3.0), (12, 1.0), (13, 2.0)])
    ]
    (case,) = cases_of(records)
    assert (case.peak, case.seconds, len(case.records)) == (13, 2.0, 3)
    assert case.gaps.to_best == 13 / 12 - 1


def test_parameters_and_budgets_are_named_where_they_differ() -> None:
    records = [
        record("a", "search", parameters={"fit": "first", "deep": True}, budget_seconds=1.0),
        record("a", "search", parameters={"fit": "best", "deep": True}, budget_seconds=1.0),
        record("a", "greedy", parameters={"fit": "best"}),
        record("a", "auto", budget_seconds=None),
        record("a", "auto", budget_seconds=60.0),
    ]
    assert [case.label for case in cases_of(records)] == [
        "search:fit=first", "search:fit=best", "greedy", "auto:budget=none", "auto:budget=60s",
    ]  # fmt: skip


def test_the_worst_ending_counts_and_a_missing_plan_is_not_a_gap() -> None:
    records = [record("a", "search", 12), record("a", "search", None, status=RunStatus.CRASHED)]
    (case,) = cases_of(records)
    assert (case.status, case.peak, case.gaps.to_best) == (RunStatus.CRASHED, None, None)
    assert case.facts.best_known == 12


def test_times_that_do_not_count_are_none() -> None:
    (case,) = cases_of([record("a", "greedy", timed=False)])
    assert case.seconds is None


def test_instances_keep_their_order() -> None:
    records = [record("b", "x"), record("a", "x"), record("b", "y")]
    assert [(case.facts.instance, case.label) for case in cases_of(records)] == [
        ("b", "x"), ("b", "y"), ("a", "x"),
    ]  # fmt: skip
