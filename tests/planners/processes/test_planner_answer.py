"""What planners of third parties return, raise and change, and what becomes of it."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from planners import Budget, Plan, Problem, Result, Status, bounds_of, get, registry, run
from planners.command_line.interrupt import Interrupt
from planners.greedy.place import place
from planners.model.findings import Findings
from planners.model.plan import feasible, infeasible, no_plan_found, optimal
from planners.model.problem import Safety
from planners.processes import isolated_planner, isolated_process
from planners.processes.isolated_planner import Isolation, answer_in_isolation
from planners.processes.planner_answer import answer_of
from planners.registry import ChosenPlanner, PlannerInfo
from tests.interrupts import pressed_in_child
from tests.random_problems import random_problem

Planner = Callable[[Problem, Budget], Any]

PROBLEM = Problem(size=[4, 2, 3], start=[0, 0, 2], end=[2, 4, 4])
BEST = Plan([0, 4, 0], 6)


def third_party(planner: Planner, **defaults: Any) -> ChosenPlanner:
    return ChosenPlanner(PlannerInfo("third", "", "", defaults, lambda **_: planner), {})


def answered(answer: object) -> Result:
    return run(PROBLEM, third_party(lambda _problem, _budget: answer))


def forged(kind: type, **fields: object) -> Any:
    """Return an object whose constructor had no say."""
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


class RaisingResult(Result):
    """A result that raises what no handler of Exception sees."""

    @property
    def certificate(self) -> str:  # type: ignore[override]
        raise SystemExit("gone")


class EndlessOffsets:
    def __iter__(self) -> Iterator[int]:
        while True:
            yield 0


class LyingArray(np.ndarray):
    """An array that answers for itself."""

    def __len__(self) -> int:
        return 3

    def tolist(self) -> list[int]:  # type: ignore[override]
        raise GeneratorExit


class EndlessStatistics(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return map(str, itertools.count())

    def __len__(self) -> int:
        return 0


class LyingInt(int):
    def __int__(self) -> int:
        return 6

    def __le__(self, _other: object) -> bool:
        raise ValueError

    __lt__ = __gt__ = __ge__ = __le__


class ClaimsToBeAPlan:
    @property
    def __class__(self) -> type:
        return Plan


WELL_FORMED = {
    "a plan": BEST,
    "a result": feasible(BEST),
    "a list of offsets": forged(Plan, offsets=[0, 4, 0], peak=6),
    "offsets of another width": forged(Plan, offsets=np.array([0, 4, 0], dtype=np.uint16), peak=6),
    "offsets of big endians": forged(Plan, offsets=np.array([0, 4, 0], dtype=">i8"), peak=6),
    "NumPy's numbers": forged(
        Result, status=Status.FEASIBLE, plan=forged(Plan, offsets=(0, 4, 0), peak=np.int16(6)),
        lower_bound=np.uint8(6), certificate="mine", reason="", statistics={"n": np.int64(3)},
    ),
    "numbers that lie": forged(Plan, offsets=[0, 4, 0], peak=LyingInt(99)),
    "arrays that lie": forged(Plan, offsets=np.array([0, 4, 0]).view(LyingArray), peak=6),
}  # fmt: skip


@pytest.mark.parametrize("name", WELL_FORMED)
def test_what_is_well_formed_is_copied(name: str) -> None:
    result = answered(WELL_FORMED[name])
    assert result.status is Status.FEASIBLE, result.reason
    assert result.plan is not None
    assert type(result) is Result
    assert type(result.plan) is Plan
    assert type(result.plan.offsets) is np.ndarray
    assert {type(result.plan.peak), type(result.lower_bound)} == {int}
    assert result.plan.offsets.tolist() == [0, 4, 0]
    assert {type(value) for value in result.statistics.values()} <= {int}


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
    "no plan": (Result(Status.OPTIMAL), "a result that is optimal needs a plan, found none"),
    "a raising part": (forged(RaisingResult, status=Status.FEASIBLE, plan=BEST, lower_bound=0),
                       "SystemExit: gone"),
    "a missing part": (forged(Plan, peak=6), "AttributeError: 'Plan' object has no attribute"),
    "endless offsets": (forged(Plan, offsets=EndlessOffsets(), peak=6), "found 4 for 3"),
    "offsets beyond memory": (
        forged(Plan, offsets=np.broadcast_to(np.int64(0), 10**15), peak=6), "found 1000000000000000"
    ),
    "offsets without length": (forged(Plan, offsets=np.array(0), peak=6), "TypeError"),
    "broken offsets": (forged(Plan, offsets=[0, 4.5, 0], peak=6), "field offsets, tensor 1"),
    "text as offsets": (forged(Plan, offsets="040", peak=6), "found '0'"),
    "a peak": (forged(Plan, offsets=[0, 4, 0], peak="6"), "a peak is a whole number of bytes"),
    "a stranger": (ClaimsToBeAPlan(), "AttributeError"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_is_invalid_by_name(name: str) -> None:
    answer, reason = MALFORMED[name]
    result = answered(answer)
    assert result.status is Status.INVALID
    assert reason in result.reason
    assert len(result.reason) < 300
    assert result.plan is None


def test_endless_statistics_end() -> None:
    result = answered(forged(
        Result, status=Status.FEASIBLE, plan=BEST, lower_bound=0, certificate="", reason="",
        statistics=EndlessStatistics(),
    ))  # fmt: skip
    assert result.status is Status.FEASIBLE
    assert len(result.statistics) == 1000


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


def test_out_of_memory_is_no_wrong_plan() -> None:
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


@pytest.mark.parametrize("isolation", [None, Isolation()])
@pytest.mark.parametrize("safety", list(Safety))
def test_nobody_else_sees_what_a_planner_assigns(
    safety: Safety, isolation: Isolation | None
) -> None:
    problem = random_problem(random.Random(3), safety, 6, features=frozenset())
    budget = Budget(seed=3)
    honest = run(problem, get("auto"), Budget(node_limit=100))
    before = [problem.size, problem.graph, problem.blocks, problem.capacity]

    def planner(problem: Problem, budget: Budget) -> Plan:
        for owner in filter(None, (problem, problem.graph, problem.blocks)):
            for name, value in list(vars(owner).items()):
                if isinstance(value, np.ndarray):
                    with pytest.raises(ValueError, match="WRITEABLE"):
                        value.setflags(write=True)
                object.__setattr__(owner, name, None)
        object.__setattr__(budget, "seed", 99)
        return Plan([0] * 6, 0)

    result = run(problem, third_party(planner), budget, isolation=isolation)
    assert result.status is Status.INVALID
    assert result.seed == 3
    after = [problem.size, problem.graph, problem.blocks, problem.capacity]
    assert all(one is other for one, other in zip(before, after, strict=True))
    assert run(problem, get("auto"), Budget(node_limit=100)).peak == honest.peak


@pytest.mark.parametrize("safety", list(Safety))
def test_nobody_else_believes_bounds_that_a_planner_writes(safety: Safety) -> None:
    problem = random_problem(random.Random(3), safety, 6, features=frozenset())
    honest = [(bound.name, bound.bytes) for bound in bounds_of(problem)]

    def planner(problem: Problem, _budget: Budget) -> Plan:
        for bound in bounds_of(problem):
            object.__setattr__(bound, "bytes", 1 << 40)
        assert bounds_of(problem)[0].bytes == 1 << 40
        problem.known_bounds.quick.clear()
        return place(problem)

    assert run(problem, third_party(planner)).valid
    assert [(bound.name, bound.bytes) for bound in bounds_of(problem)] == honest


def test_state_of_the_process_is_put_back() -> None:
    def planner(problem: Problem, _budget: Budget) -> Plan:
        sys.setrecursionlimit(70)
        return place(problem)

    limit = sys.getrecursionlimit()
    result = run(PROBLEM, third_party(planner))
    assert sys.getrecursionlimit() == limit
    assert result.status in (Status.FEASIBLE, Status.INVALID)


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


def test_trust_is_not_a_third_partys_to_give() -> None:
    ours = get("auto").info
    assert ours.built_in
    registry.add(replace(ours, name="auto-too"))
    try:
        registry.load_built_in()
        assert not get("auto-too").info.built_in
    finally:
        registry.remove("auto-too")


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


def test_a_plan_of_one_who_does_not_support_the_problem_is_nobodys() -> None:
    result = answered(Result(Status.UNSUPPORTED, Plan([0, 0, 0], 4), lower_bound=3, reason="no"))
    assert (result.status, result.plan, result.lower_bound) == (Status.UNSUPPORTED, None, 0)


def test_the_answer_before_judgement_is_plain() -> None:
    answer = answer_of(third_party(lambda _p, _b: BEST), PROBLEM, Budget())
    assert answer.plan is not BEST
