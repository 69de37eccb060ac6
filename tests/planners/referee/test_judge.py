"""The judge: what a planner found and proved, and the status that follows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from planners.answers.planner_answer import take_in
from planners.model.bounds import Bound
from planners.model.findings import Findings, PlannerAnswer
from planners.model.plan import (
    Claim,
    Plan,
    Result,
    Status,
    feasible,
    infeasible,
    no_plan_found,
    optimal,
)
from planners.model.problem import Problem
from planners.referee.judge import judge, judge_all, judge_cost

LOW, HIGH, WRONG = Plan([0, 0], 4), Plan([0, 4], 8), Plan([0, 1], 4)
NO, FITS, BEST = Status.NO_PLAN_FOUND, Status.FEASIBLE, Status.OPTIMAL
NEVER, BAD, NOT_MINE = Status.INFEASIBLE, Status.INVALID, Status.UNSUPPORTED
OVER = "the best plan needs 3 bytes more than the capacity of 5"


def two_tensors(capacity: int | None = None) -> Problem:
    """Return the problem whose plans are LOW, which is optimal, and HIGH."""
    return Problem(size=[4, 4], start=[0, 1], end=[1, 2], capacity=capacity)


def bound(size: int, name: str) -> Bound:
    return Bound(name, size, np.empty(0, dtype=np.int64))


# Capacity, findings, known bounds; status, bound, certificate, and what is said.
CASES: dict[str, tuple[int | None, Findings, list[Bound], tuple[Status, int, str, str]]] = {
    "nothing": (None, Findings(reason="time"), [], (NO, 0, "", "time")),
    "a plan": (None, Findings(HIGH, reason="time"), [], (FITS, 0, "", "time")),
    "its own bound is met": (None, Findings(LOW, 4, "own"), [], (BEST, 4, "own", "")),
    "its own bound is not": (None, Findings(HIGH, 4, "own"), [], (FITS, 4, "own", "")),
    "a known bound is met": (None, Findings(LOW, 2, "own"), [bound(4, "x")], (BEST, 4, "x", "")),
    "the best bound counts": (
        None, Findings(HIGH), [bound(3, "x"), bound(4, "y"), bound(2, "z")], (FITS, 4, "y", ""),
    ),
    "equal bounds stay": (None, Findings(HIGH, 4, "own"), [bound(4, "x")], (FITS, 4, "own", "")),
    "0 has a certificate": (None, Findings(HIGH), [bound(0, "x")], (FITS, 0, "x", "")),
    "a bound alone": (None, Findings(reason="r"), [bound(4, "x")], (NO, 4, "x", "r")),
    "it fits": (8, Findings(HIGH), [], (FITS, 0, "", "")),
    "over the capacity": (5, Findings(HIGH), [], (NO, 0, "", OVER)),
    "over, and why": (5, Findings(HIGH, reason="time"), [], (NO, 0, "", f"{OVER}; time")),
    "a bound above the capacity": (
        3, Findings(HIGH, 4, "own", "time"), [],
        (NEVER, 4, "own", "at least 4 bytes are needed, the capacity is 3"),
    ),
    "a known bound above it": (
        3, Findings(), [bound(4, "x")],
        (NEVER, 4, "x", "at least 4 bytes are needed, the capacity is 3"),
    ),
    "a proof needs no better one": (
        2, Findings(None, 3, "own"), [bound(4, "x")],
        (NEVER, 3, "own", "at least 3 bytes are needed, the capacity is 2"),
    ),
    "a proof without a bound": (
        None, Findings(None, 0, "pinned", "both at 0", claimed=NEVER), [bound(4, "x")],
        (NEVER, 0, "pinned", "both at 0"),
    ),
    "a wrong plan": (None, Findings(WRONG, 4, "own"), [bound(4, "x")],
                     (BAD, 4, "own", "the peak is the largest offset + size, 5, found 4")),
    "a bound above the plan": (
        None, Findings(LOW, 5, "own"), [],
        (BAD, 5, "own", "claims that no plan is below 5 bytes, and its own plan has 4"),
    ),
    "an optimum without a bound": (
        None, Findings(LOW, 3, "own", claimed=BEST), [],
        (BAD, 3, "own", "claims an optimum without a bound to match"),
    ),
    "no plan fits, but its own": (
        4, Findings(LOW, 0, "own", claimed=NEVER), [],
        (BAD, 0, "own", "claims that no plan fits, and its own plan does, with a peak of 4"),
    ),
    "no plan fits, nor its own": (
        5, Findings(HIGH, 0, "own", "search over", claimed=NEVER), [],
        (NEVER, 0, "own", "search over"),
    ),
    "a claimed status is none": (None, Findings(LOW, claimed=NO), [], (FITS, 0, "", "")),
    "unsupported": (
        None, Findings(LOW, 3, "own", "chains", claimed=NOT_MINE), [bound(4, "x")],
        (NOT_MINE, 0, "", "chains"),
    ),
    "it failed": (
        None, Findings(LOW, 3, "own", "it raised", claimed=BAD), [], (BAD, 0, "", "it raised"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_status_follows_from_plan_bound_and_capacity(name: str) -> None:
    capacity, found, bounds, expected = CASES[name]
    result = judge(two_tensors(capacity), found, bounds)
    said = (result.status, result.lower_bound, result.certificate, result.reason)
    assert said == expected
    assert result.plan is (None if found.claimed in (NOT_MINE, BAD) else found.plan)


def test_an_interrupt_and_the_counters_of_a_planner_stay_in_its_result() -> None:
    found = Findings(HIGH, reason="interrupted", interrupted=True, statistics={"nodes": 3})
    result = judge(two_tensors(), found)
    assert (result.interrupted, result.statistics) == (True, {"nodes": 3})
    assert not judge(two_tensors(), Findings(HIGH)).interrupted


def claimed_by(problem: Problem, found: Findings, *bounds: Bound) -> Result:
    """Return the result of a planner whose proofs do not count."""
    return judge_all(problem, [PlannerAnswer("one", found, proofs_count=False)], bounds)[0]


@pytest.mark.parametrize(
    ("found", "status", "claim"),
    [
        (Findings(LOW, 4, "own"), FITS, Claim("own", 4, False)),
        (Findings(LOW, 4, "own", claimed=BEST), FITS, Claim("own", 4, False)),
        (Findings(None, 4, "own"), NO, Claim("own", 4, False)),
        (Findings(None, 0, "own", "r", claimed=NEVER), NO, Claim("own", 0, True)),
        (Findings(LOW), FITS, None),
    ],
)
def test_a_proof_that_does_not_count_is_a_claim(
    found: Findings, status: Status, claim: Claim | None
) -> None:
    result = claimed_by(two_tensors(), found)
    assert (result.status, result.lower_bound, result.certificate) == (status, 0, "")
    assert result.claim == claim


@pytest.mark.parametrize(
    ("capacity", "claimed", "known", "stays"),
    [
        (None, Findings(LOW, 4, "own"), 4, False),
        (None, Findings(LOW, 4, "own"), 3, True),
        (3, Findings(None, 0, "own", claimed=NEVER), 4, False),
        (4, Findings(None, 0, "own", claimed=NEVER), 4, True),
    ],
)
def test_a_claim_stays_until_a_bound_confirms_it(
    capacity: int | None, claimed: Findings, known: int, stays: bool
) -> None:
    result = claimed_by(two_tensors(capacity), claimed, bound(known, "x"))
    assert (result.claim is not None) == stays


def settled(problem: Problem, **found: Result | Findings | PlannerAnswer) -> dict[str, Result]:
    """Return the results of several planners, which are judged together."""
    answers = [
        each if isinstance(each, PlannerAnswer) else PlannerAnswer(name, take_in(problem, each))
        for name, each in found.items()
    ]
    return dict(zip(found, judge_all(problem, answers), strict=True))


def test_a_bound_that_one_proves_holds_for_all() -> None:
    answers = settled(
        two_tensors(),
        prover=no_plan_found("", 4, "search"),
        lucky=feasible(LOW),
        other=feasible(HIGH),
    )
    assert answers["lucky"].status is Status.OPTIMAL
    assert answers["lucky"].certificate == "search"
    assert answers["other"].status is Status.FEASIBLE
    assert answers["other"].lower_bound == 4


def test_a_bound_above_a_valid_plan_is_refuted_and_holds_for_none() -> None:
    answers = settled(
        two_tensors(), boaster=optimal(HIGH, "pride"), honest=feasible(LOW, 2, "half")
    )
    assert answers["boaster"].status is Status.INVALID
    assert answers["boaster"].reason == (
        "boaster claims by 'pride' that no plan is below 8 bytes, and the valid plan of honest "
        "has a peak of 4"
    )
    assert answers["honest"].status is Status.FEASIBLE
    assert (answers["honest"].lower_bound, answers["honest"].certificate) == (2, "half")


def test_a_proof_that_nothing_fits_is_refuted_by_a_plan_that_does() -> None:
    problem = two_tensors(capacity=4)
    answers = settled(problem, no=infeasible("gloom", "too much"), yes=feasible(LOW))
    assert answers["no"].status is Status.INVALID
    assert "no claims by 'gloom' that no plan fits, and the valid plan of yes" in (
        answers["no"].reason
    )
    answers = settled(problem, no=infeasible("gloom", "too much"), over=Findings(HIGH))
    assert answers["no"].status is Status.INFEASIBLE


@pytest.mark.parametrize(
    "claim", [Findings(None, 5, "x"), Findings(certificate="x", claimed=NEVER)]
)
def test_a_claim_that_counts_for_nobody_is_refuted_as_well(claim: Findings) -> None:
    shy = PlannerAnswer("shy", claim, proofs_count=False)
    answers = settled(two_tensors(), shy=shy, honest=feasible(LOW))
    assert (answers["shy"].status, answers["shy"].claim) == (Status.INVALID, None)


def test_a_bound_above_the_capacity_is_refuted_as_a_bound() -> None:
    problem = two_tensors(capacity=4)
    answers = settled(problem, no=Findings(None, 6, "gloom"), yes=feasible(LOW))
    assert "claims by 'gloom' that no plan is below 6 bytes, and" in answers["no"].reason


def test_an_invalid_or_unsupported_answer_neither_claims_nor_refutes() -> None:
    answers = settled(
        two_tensors(),
        wrong=Findings(LOW, 9, "x", "bad", claimed=BAD),
        silent=Findings(None, 9, "y", "no", claimed=NOT_MINE),
        right=feasible(LOW, 3, "half"),
    )
    assert (answers["wrong"].status, answers["wrong"].reason) == (BAD, "bad")
    assert (answers["silent"].status, answers["silent"].reason) == (NOT_MINE, "no")
    assert answers["right"].lower_bound == 3


def test_a_plan_of_an_invalid_answer_refutes_nobody() -> None:
    wrong: dict[str, Any] = {"wrong": Result(Status.INVALID, Plan([0, 0], 1), reason="bad")}
    assert settled(two_tensors(), **wrong, right=optimal(LOW, "own"))["right"].status is BEST


@pytest.mark.parametrize(
    ("found", "cost", "least", "status"),
    [
        (Findings(HIGH), 2.0, 1.0, FITS),
        (Findings(HIGH), 1.0 + 1e-12, 1.0, BEST),
        (Findings(LOW), 2.0, 1.0, FITS),  # the smallest peak is not the least cost
        (Findings(), math.inf, 1.0, NO),
        (Findings(HIGH), 2.0, math.inf, NEVER),
        (Findings(WRONG), 1.0, 1.0, BAD),
        (Findings(reason="chains", claimed=NOT_MINE), math.inf, math.inf, NOT_MINE),
    ],
)
def test_a_plan_with_a_cost_is_optimal_at_the_least_cost(
    found: Findings, cost: float, least: float, status: Status
) -> None:
    assert judge_cost(two_tensors(8), found, cost, least, rounding=1e-9).status is status


def priced(capacity: int = 8) -> Problem:
    """Return the tensors of ``two_tensors`` as safe ones, whose reuse costs 3."""
    return Problem([4, 4], [0, 1], [1, 2], reuse_prices=[(0, 1, 3)], capacity=capacity)


@pytest.mark.parametrize(
    ("found", "status", "told"),
    [
        (Findings(LOW), FITS, ""),
        (Findings(HIGH), BEST, ""),  # no plan costs less than 0
        (Findings(LOW, cost_bound=3, cost_certificate="own"), BEST, ""),
        (Findings(LOW, 4, "lifetime", cost_bound=2, cost_certificate="own"), FITS, ""),
        (Findings(LOW, 4, "lifetime", claimed=BEST), BAD, "claims an optimum without a bound"),
        (Findings(LOW, cost_bound=4), BAD, "claims that no plan costs less than 4, and its own"),
        (Findings(cost_bound=4), NO, ""),
    ],
)
def test_a_plan_is_optimal_if_and_only_if_it_meets_the_bound_of_the_cost(
    found: Findings, status: Status, told: str
) -> None:
    result = judge(priced(), found)
    assert result.status is status
    assert result.reason.startswith(told)


def test_a_plan_above_the_capacity_meets_no_bound_of_the_cost() -> None:
    result = judge(priced(7), Findings(HIGH, cost_bound=3, cost_certificate="own"))
    assert (result.status, result.cost, result.cost_bound) == (NO, 0, 3)


def test_the_best_bound_of_the_cost_applies_to_all() -> None:
    answers = settled(
        priced(), plan=Findings(LOW), proof=Findings(cost_bound=3, cost_certificate="search")
    )
    assert (answers["plan"].status, answers["proof"].status) == (BEST, NO)
    assert (answers["plan"].cost_bound, answers["plan"].cost_certificate) == (3, "search")


def test_a_bound_of_the_cost_above_a_plan_makes_its_row_invalid() -> None:
    answers = settled(
        priced(), plan=Findings(LOW), proof=Findings(cost_bound=4, cost_certificate="search")
    )
    assert answers["proof"].status is BAD
    assert answers["proof"].reason == (
        "proof claims by 'search' that no plan within the capacity costs less than 4, and the plan "
        "of plan costs 3"
    )
    assert (answers["plan"].status, answers["plan"].cost_bound) == (FITS, 0)


def test_a_claimed_bound_of_the_cost_is_a_claim_until_it_is_confirmed() -> None:
    said = Findings(LOW, cost_bound=3, cost_certificate="theirs")
    claimed = PlannerAnswer("theirs", said, proofs_count=False)
    alone = judge_all(priced(), [claimed])[0]
    assert (alone.status, alone.cost_bound, alone.claim) == (FITS, 0, Claim("theirs", 0, False, 3))
    ours = PlannerAnswer("ours", Findings(cost_bound=3, cost_certificate="search"))
    confirmed = judge_all(priced(), [claimed, ours])[0]
    assert (confirmed.status, confirmed.claim) == (BEST, None)
    false = PlannerAnswer("false", Findings(cost_bound=4), proofs_count=False)
    assert [result.status for result in judge_all(priced(), [claimed, false])] == [FITS, BAD]
