"""What planners of third parties return, raise and change, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from planners import Budget, Plan, Problem, Result, Status, bounds_of, get, registry, run
from planners.answers import isolated_planner
from planners.answers.isolated_planner import Isolation, answer_in_isolation
from planners.answers.planner_answer import answer_of
from planners.model.findings import Findings
from planners.model.plan import feasible, infeasible, no_plan_found, optimal
from planners.processes import isolated_process
from planners.processes.interrupt import Interrupt
from planners.registry import ChosenPlanner, PlannerInfo
from tests.interrupts import pressed_in_child

Planner = Callable[[Problem, Budget], Any]

PROBLEM = Problem(size=[4, 2, 3], start=[0, 0, 2], end=[2, 4, 4])
BEST = Plan([0, 4, 0], 6)


def third_party(planner: Planner, **defaults: Any) -> ChosenPlanner:
    return ChosenPlanner(PlannerInfo("third", "", "", defaults, lambda **_: planner), {})


def answered(answer: object) -> Result:
    return run(PROBLEM, third_party(lambda _problem, _budget: answer))


MALFORMED: dict[str, tuple[object, str]] = {
    "nothing": (None, "a planner returns a Plan or a Result, found NoneType"),
    "a generator": ((i for i in "ab"), "found generator"),
    "a tuple": ((BEST, 6), "found tuple"),
    "a class": (Plan, "found type"),
    "statistics": (
        replace(feasible(BEST), statistics=None), "statistics are a mapping, found None"
    ),
    "a count": (
        replace(feasible(BEST), statistics={"n": [1]}),
        "statistics, n: a string, a number or a boolean is needed, found [1]",
    ),
    "a key": (replace(feasible(BEST), statistics={3: 1}), "a name in statistics is a string"),
    "a reason": (replace(feasible(BEST), reason=404), "a reason is a string, found 404"),
    "bytes": (replace(feasible(BEST), reason=b"x"), "a reason is a string, found b'x'"),
    "an interrupt": (replace(feasible(BEST), interrupted=1), "interrupted is true or false"),
    "a certificate": (feasible(BEST, 3, None), "a certificate is a string, found None"),
    "a bound": (feasible(BEST, 3.0), "a lower bound is a whole number of bytes"),
    "a truth": (feasible(BEST, True), "found True"),
    "a negative bound": (feasible(BEST, -1), "found -1"),
    "a huge bound": (no_plan_found("", 10**5000), "found a whole number of 16610 bits"),
    "a status": (Result("optimal", BEST), "a status of planners.Status, found 'optimal'"),
    "a plan": (Result(Status.FEASIBLE, [0, 4, 0]), "a planners.Plan or None, found list"),
    "no plan": (Result(Status.OPTIMAL), "a result that is optimal needs a plan"),
    "too many offsets": (Plan([0] * 4, 6), "found 4 for 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_answers_are_invalid_with_a_reason(name: str) -> None:
    answer, reason = MALFORMED[name]
    result = answered(answer)
    assert result.status is Status.INVALID
    assert reason in result.reason
    assert len(result.reason) < 300
    assert result.plan is None


class OwnError(BaseException):
    """One that no handler of Exception sees."""


@pytest.mark.parametrize("error", [OwnError("a\x1b[1m\nb"), SystemExit(0), GeneratorExit("x")])
def test_every_error_is_a_row(error: BaseException) -> None:
    def planner(_problem: Problem, _budget: Budget) -> Plan:
        raise error

    seen: list[BaseException] = []
    result = run(PROBLEM, third_party(planner), on_error=seen.append)
    assert result.status is Status.INVALID
    assert type(error).__name__ in result.reason
    assert result.reason.isprintable()
    assert seen == [error]


def test_out_of_memory_is_not_a_wrong_plan() -> None:
    def planner(_problem: Problem, _budget: Budget) -> Plan:
        raise MemoryError("9 GiB")

    result = run(PROBLEM, third_party(planner))
    assert (result.status, result.reason) == (Status.NO_PLAN_FOUND, "out of memory: 9 GiB")


def test_ctrl_c_is_the_users() -> None:
    def planner(_problem: Problem, _budget: Budget) -> Plan:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(PROBLEM, third_party(planner))


WORSE, WORST = Plan([0, 5, 0], 7), Plan([0, 6, 0], 8)
ENDS: dict[str, BaseException | None] = {
    "none": None,
    "time": TimeoutError("late"),
    "memory": MemoryError("9 GiB"),
    "Ctrl-C": KeyboardInterrupt(),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_best_offer_is_the_answer_of_a_planner_without_one(name: str) -> None:
    def planner(_problem: Problem, budget: Budget) -> Result:
        for plan in (WORST, WORSE, WORST):
            budget.offer(plan)
        error = ENDS[name]
        if error is not None:
            raise error
        return no_plan_found("lost it")

    result = run(PROBLEM, third_party(planner))
    assert (result.status, result.peak) == (Status.FEASIBLE, 7)
    assert result.interrupted == (name == "Ctrl-C")


def test_an_answer_that_comes_with_ctrl_c_is_kept_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patient = partial(isolated_process.call_isolated, interrupt_grace_seconds=60)
    monkeypatch.setattr(isolated_planner, "call_isolated", patient)
    answer = pressed_in_child(lambda: Findings(WORSE), deaf=True)
    found = answer_in_isolation(PROBLEM, Budget().started(), Isolation(), answer)
    assert found.plan is not None
    assert (found.plan.peak, found.interrupted) == (7, True)


def test_an_offer_is_kept_by_a_planner_that_hides_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def planner(_problem: Problem, budget: Budget) -> Plan:
        budget.offer(WORSE)
        raise ValueError("stopped")

    monkeypatch.setattr(Interrupt, "has_come", lambda: True)
    result = run(PROBLEM, third_party(planner))
    assert (result.status, result.peak, result.interrupted) == (Status.FEASIBLE, 7, True)


@pytest.mark.parametrize("isolation", [None, Isolation()])
def test_offers_are_the_curve_and_a_returned_plan_is_the_answer(
    isolation: Isolation | None,
) -> None:
    def planner(_problem: Problem, budget: Budget) -> Plan:
        for plan in (WORST, WORST, BEST):
            budget.offer(plan)
        return WORSE

    budget = Budget(time_limit_seconds=10).started()
    found = answer_of(third_party(planner), PROBLEM, budget)
    assert [peak for _, peak in found.incumbents] == [8, 6]
    seconds = [when for when, _ in found.incumbents]
    assert 0 <= seconds[0] <= seconds[1] < 10
    assert run(PROBLEM, third_party(planner), budget, isolation=isolation).peak == 7


def test_an_offer_is_judged_as_an_answer_is() -> None:
    def overlapping(_problem: Problem, budget: Budget) -> Result:
        budget.offer(Plan([0, 0, 0], 4))
        return no_plan_found("")

    def malformed(_problem: Problem, budget: Budget) -> Plan:
        no_plan: Any = [0, 4, 0]
        budget.offer(no_plan)
        return BEST

    assert run(PROBLEM, third_party(overlapping)).status is Status.INVALID
    result = run(PROBLEM, third_party(malformed))
    assert (result.status, result.reason) == (
        Status.INVALID, "a planner offers a Plan, found list",
    )  # fmt: skip


def test_text_of_an_answer_is_one_line() -> None:
    result = answered(replace(
        no_plan_found("a\nb\x1b[2J" + "c" * 10**6, 3, "trust\n\u202eme" + "x" * 1000),
        statistics={"a\nkey": "a\nvalue", "long": 10**5000, "far": float("inf")},
    ))  # fmt: skip
    assert result.reason.startswith("a bccc")
    assert len(result.reason) == 1000
    assert result.claim is not None
    assert result.claim.certificate.startswith("trust mexxx")
    assert len(result.claim.certificate) == 100
    assert result.statistics == {
        "a key": "a value", "long": "a whole number of 16610 bits", "far": "inf",
    }  # fmt: skip


def test_parameters_are_plain() -> None:
    class Silent:
        def __str__(self) -> str:
            raise OwnError

    chosen = third_party(
        lambda _problem, _budget: BEST, a=Silent(), b=[1], c=np.int8(3), d="x\n", e=None
    )
    result = run(PROBLEM, chosen)
    assert result.parameters == {
        "a": "an object whose text cannot be shown", "b": "[1]", "c": 3, "d": "x", "e": "None",
    }  # fmt: skip


CLAIMS = {
    "optimal": (optimal(Plan([0, 4, 6], 9), "trust me"), Status.FEASIBLE, "is below 9 bytes"),
    "bound": (feasible(Plan([0, 4, 6], 9), 7, "trust me"), Status.FEASIBLE, "is below 7 bytes"),
    "bound alone": (no_plan_found("", 7, "trust me"), Status.NO_PLAN_FOUND, "is below 7 bytes"),
    "infeasible": (infeasible("trust me", "it looks bad"), Status.NO_PLAN_FOUND, "fits"),
}


@pytest.mark.parametrize("isolation", [None, Isolation()])
@pytest.mark.parametrize("name", CLAIMS)
def test_a_proof_of_a_third_party_is_a_claim(name: str, isolation: Isolation | None) -> None:
    answer, status, claim = CLAIMS[name]
    bounds = bounds_of(PROBLEM)
    chosen = third_party(lambda _problem, _budget: answer)
    for known, bytes_known, certificate in (((), 0, ""), (bounds, 6, "lifetime")):
        result = run(PROBLEM, chosen, bounds=known, isolation=isolation)
        assert result.status is status
        assert (result.lower_bound, result.certificate) == (bytes_known, certificate)
        assert str(result.claim) == f"claims by 'trust me' that no plan {claim}"


def test_a_claim_that_a_bound_confirms_is_none() -> None:
    best = third_party(lambda _problem, _budget: optimal(BEST, "trust me"))
    result = run(PROBLEM, best, bounds=bounds_of(PROBLEM))
    assert (result.status, result.certificate) == (Status.OPTIMAL, "lifetime")
    assert result.claim is None
    tight = PROBLEM.with_capacity(5)
    no = third_party(lambda _problem, _budget: infeasible("trust me", "it looks bad"))
    assert run(tight, no).claim is not None
    result = run(tight, no, bounds=bounds_of(tight))
    assert (result.status, result.certificate) == (Status.INFEASIBLE, "lifetime")
    assert result.claim is None


@pytest.mark.parametrize("isolation", [None, Isolation()])
def test_findings_without_a_status_are_taken_as_they_are(isolation: Isolation | None) -> None:
    found = Findings(BEST, 5, "own", "Ctrl-C", True, {"nodes": 3})
    result = run(PROBLEM, third_party(lambda _problem, _budget: found), isolation=isolation)
    assert (result.status, result.peak) == (Status.FEASIBLE, BEST.peak)
    assert str(result.claim) == "claims by 'own' that no plan is below 5 bytes"
    assert (result.reason, result.interrupted) == ("Ctrl-C", True)
    assert result.statistics == {"nodes": 3}


@pytest.mark.usefixtures("own_registry")
def test_trust_is_not_a_third_partys_to_give() -> None:
    ours = get("auto").info
    assert ours.built_in
    registry.add(replace(ours, name="auto-too"))
    registry.load_built_in()
    assert not get("auto-too").info.built_in


def test_an_answer_that_contradicts_its_plan_is_invalid() -> None:
    fits = infeasible("gloom", "too much")
    result = answered(replace(fits, plan=BEST))
    assert result.status is Status.INVALID
    assert result.reason == "claims that no plan fits, and its own plan does, with a peak of 6"
    over = run(PROBLEM.with_capacity(5), third_party(lambda _p, _b: replace(fits, plan=BEST)))
    assert over.status is Status.NO_PLAN_FOUND


@pytest.mark.parametrize("status", [Status.NO_PLAN_FOUND, Status.FEASIBLE])
def test_the_judge_alone_sets_the_status(status: Status) -> None:
    answer = Result(status, BEST, reason="shy")
    assert answered(answer).status is Status.FEASIBLE


def test_an_unsupported_answer_keeps_no_plan() -> None:
    result = answered(Result(Status.UNSUPPORTED, Plan([0, 0, 0], 4), lower_bound=3, reason="no"))
    assert (result.status, result.plan, result.lower_bound) == (Status.UNSUPPORTED, None, 0)


HEADER = dict.fromkeys(("reason", "certificate"), "") | {
    "peak": 6, "lower_bound": 0, "interrupted": False, "statistics": {}, "claimed": None,
    "incumbents": [],
}  # fmt: skip


@pytest.mark.parametrize(
    "sent",
    [
        b"", b"null\n", b"[" * 100_000, b'{"a":' * 100_000,
        *(
            json.dumps(HEADER | wrong).encode() + b"\n" + BEST.offsets.tobytes()
            for wrong in (
                {"peak": "6"}, {"peak": None, "claimed": "optimal"}, {"claimed": "best"},
                {"lower_bound": -1}, {"interrupted": 1}, {"statistics": []}, {"incumbents": 3},
                {"incumbents": [[10**400, 1]]}, {"certificate": None},
            )
        ),
        json.dumps(HEADER).encode() + b"\n" + bytes(8),
    ],
)  # fmt: skip
def test_other_bytes_than_answers_are_invalid(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated_planner, "call_isolated", lambda *_, **__: sent)
    found = answer_in_isolation(PROBLEM, Budget().started(), Isolation(), Findings)
    assert (found.claimed, found.reason) == (Status.INVALID, "its process sent no valid answer")
