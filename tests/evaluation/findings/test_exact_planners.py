"""The table of all exact planners on made-up records."""

from __future__ import annotations

from typing import Any

from evaluation.study.record import Record, RunStatus
from tests.evaluation.findings.exact_records import FITS, LEAST, late, ours, table
from tests.evaluation.study.made_up_records import record

SLOT = "exact-planners"


def solver(planner: str, instance: str = FITS, seconds: float = 1.0, **changes: Any) -> Record:
    fields = {"processor_seconds": seconds, "budget_seconds": 10.0, "lower_bound": 10}
    return record(instance, planner, **{**fields, **changes})


def test_only_what_a_solver_was_asked_is_shown() -> None:
    assert table(SLOT, ours()) == []
    headings, row = table(SLOT, ours(), ours(LEAST), solver("cp-sat"))
    assert headings[3:] == [
        "branch-and-bound, ms", "cp-sat, ms", "ilp-highs, ms", "ilp-cbc, ms"
    ]  # fmt: skip
    assert row == ["a.12.csv", "5", "12 bytes", "**1,000**", "**1,000**", "-", "-"]


def test_a_search_without_a_rule_is_another_question() -> None:
    without = ours(parameters={"split": False, "memory": True})
    _, row = table(SLOT, without, solver("cp-sat"))
    assert row[3] == "-"


def test_the_least_of_those_that_settle_it_is_marked() -> None:
    proven = {"status": RunStatus.OPTIMAL, "peak": 10}
    _, row = table(
        SLOT,
        solver("cp-sat", LEAST, 2, **proven),
        solver("ilp-highs", LEAST, 1, status=RunStatus.FEASIBLE),
        solver("ilp-cbc", LEAST, 3, **proven),
    )
    assert row[2:] == ["smallest peak", "-", "**2,000**", "- (10 s)", "3,000"]


def test_seeds_have_a_median_and_a_worst_or_how_many_settled_it() -> None:
    _, row = table(
        SLOT,
        *(ours(seconds=seconds, seed=seed) for seed, seconds in enumerate((1, 2, 4))),
        solver("cp-sat", seconds=3),
        solver("cp-sat", seconds=10, seed=1, **late()),
    )
    assert row[3:5] == ["**2,000** (4,000)", "- (10 s), 1 of 2"]
