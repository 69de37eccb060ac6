"""Three gaps, each from all records of an instance, and never one in place of another."""

from __future__ import annotations

import pytest

from evaluation.pages.cases import cases_of
from evaluation.pages.record_rows import rows_of_cases
from evaluation.study.gaps import NO_GAPS, ContradictionError, Gaps, facts_of, gaps_of
from evaluation.study.record import RunStatus
from instances.catalogue.catalogue_file import read_catalogue
from tests.evaluation.study.made_up_records import record

SUBJECT = ("a", "sha256:a", None)


def test_each_gap_has_its_own_reference() -> None:
    records = [record("a", "first", 12), record("a", "second", 15)]
    facts = facts_of(records)[SUBJECT]
    assert (facts.lower_bound, facts.certificate) == (10, "lifetime")
    assert (facts.best_known, facts.best_planner, facts.optimum) == (12, "first", None)
    assert gaps_of(records[1], facts) == Gaps(0.5, None, 0.25)


def test_a_proof_by_one_run_is_a_reference_for_all() -> None:
    records = [
        record("a", "greedy", 15),
        record("a", "exact", 12, status=RunStatus.OPTIMAL, lower_bound=12, certificate="search"),
    ]
    facts = facts_of(records)[SUBJECT]
    assert (facts.optimum, facts.certificate) == (12, "search")
    assert gaps_of(records[0], facts) == Gaps(0.25, 0.25, 0.25)


def test_a_bound_and_a_plan_of_two_runs_that_meet_are_a_proof() -> None:
    records = [
        record("a", "greedy", 12),
        record("a", "exact", None, lower_bound=12, certificate="search"),
    ]
    assert facts_of(records)[SUBJECT].optimum == 12


def test_refuted_plans_and_bounds_do_not_count() -> None:
    wrong = record("a", "wrong", 11, status=RunStatus.INVALID, lower_bound=14, bounds={"own": 13})
    facts = facts_of([wrong, record("a", "greedy", 12)])[SUBJECT]
    assert (facts.best_known, facts.lower_bound) == (12, 10)
    assert gaps_of(wrong, facts) == NO_GAPS


def test_online_allocators_have_no_gaps_and_count_for_none() -> None:
    online = record("a", "caching", 9, kind="online", bounds={"other": 99})
    facts = facts_of([online, record("a", "greedy", 12)])[SUBJECT]
    assert (facts.best_known, facts.lower_bound) == (12, 10)
    assert gaps_of(online, facts) == NO_GAPS


def test_a_plan_below_a_bound_is_a_contradiction() -> None:
    records = [
        record("a", "greedy", 12),
        record("a", "liar", None, lower_bound=13, certificate="claim"),
    ]
    with pytest.raises(
        ContradictionError,
        match=r"found a peak of 12 in made-up: a/greedy, and a bound of 13 by claim in made-up",
    ):
        facts_of(records)


@pytest.mark.parametrize(
    ("other", "names", "best"),
    [
        ({"instance_digest": "sha256:b"}, ["a (sha256:a)", "a (sha256:b)"], [12, 11]),
        # One problem: its best plan is that of both questions.
        ({"capacity": 11}, ["a (sha256:a)", "a (sha256:a, within 11)"], [11, 11]),
        ({"instance": "a:capacity=11", "capacity": 11}, ["a", "a:capacity=11"], [11, 11]),
        # Older records say the capacity in the name alone.
        ({"instance": "a:capacity=11"}, ["a", "a:capacity=11"], [11, 11]),
    ],
)
def test_questions_that_differ_are_two_instances(
    other: dict[str, object], names: list[str], best: list[int]
) -> None:
    records = [
        record("a", "greedy", 12),
        record(
            **{
                "instance": "a",
                "planner": "greedy",
                "peak": 11,
                "instance_digest": "sha256:a",
                **other,
            }
        ),
    ]
    for ordered in (records, records[::-1]):
        facts = facts_of(ordered)
        assert [facts[its.subject].instance for its in records] == names
        assert [facts[its.subject].best_known for its in records] == best
        assert [case.peak for case in cases_of(ordered)] == [its.peak for its in ordered]
        rows = rows_of_cases(cases_of(ordered))["runs"]
        assert {row["peak"]: row["instance"] for row in rows} == {12: names[0], 11: names[1]}


def test_nothing_is_above_a_reference_of_nothing() -> None:
    empty = record("a", "greedy", 0, bounds={"lifetime": 0}, status=RunStatus.OPTIMAL)
    facts = facts_of([empty])[SUBJECT]
    assert facts.optimum == 0
    assert gaps_of(empty, facts) == Gaps(None, 0.0, 0.0)


def test_the_catalogue_is_one_more_record() -> None:
    entry = next(its for its in read_catalogue().values() if its.best.status == "optimal")
    worse = entry.best.peak + 1
    found = record(
        "a", "greedy", worse, instance_digest=entry.facts.digest, bounds={}, lower_bound=0
    )
    facts = facts_of([found])[found.subject]
    assert (facts.best_known, facts.optimum) == (entry.best.peak, entry.best.peak)
    assert (facts.best_planner, facts.certificate) == (entry.best.planner, entry.best.certificate)
    below = record(
        "a", "liar", entry.best.lower_bound - 1, instance_digest=entry.facts.digest, bounds={}
    )
    with pytest.raises(ContradictionError, match="in the catalogue of instances"):
        facts_of([below])
