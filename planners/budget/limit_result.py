"""Ask a budget planner, plan the addresses of what it answers, and judge both."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from planners.budget.check_sequence import check_sequence
from planners.budget.limit_planner import (
    LimitPlanner,
    LimitQuestion,
    UnsupportedStepError,
)
from planners.budget.repeatable_step import Sequence32, repeated_problem
from planners.errors import InvalidPlanError
from planners.judged_run import run
from planners.model.budget import Budget
from planners.model.plan import Plan, Status
from planners.model.problem import Problem
from planners.text.byte_units import human_bytes

# Plans the addresses of a sequence; as a rule it proves at once that its plan is the best.
ADDRESS_PLANNER = "auto"
ADDRESS_SECONDS = 5.0
# If addresses need more bytes than are live, the planner is asked again for fewer live bytes.
MOST_QUESTIONS = 3
# A difference of seconds below this part of the step is rounding.
SAME_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class LimitResult:
    """What one planner makes of one step and one limit, judged.

    Parameters
    ----------
    planner
        Its name.
    status
        ``optimal`` if the seconds meet the lower bound, ``feasible`` if the plan is within the
        limit, ``infeasible`` if nothing is, by proof; else why there is none.
    limit
        Bytes asked for.
    sequence
        Nodes and copies in the order in which they run, or None.
    problem, plan
        The problem of that sequence, and a plan of its addresses.
    extra_seconds
        Seconds that the step takes more.
    least_seconds, certificate
        Lower bound on the seconds more within the limit, and the name of its proof.
    reason
        Why there is no plan, or no better one.
    seconds
        Wall time of the planner and of the planning of addresses.
    statistics
        Counters of the planner.
    """

    planner: str
    status: Status
    limit: int
    sequence: Sequence32 | None
    problem: Problem | None
    plan: Plan | None
    extra_seconds: float
    least_seconds: float
    certificate: str
    reason: str
    seconds: float
    statistics: Mapping[str, int] = field(default_factory=dict)


def run_under_limit(question: LimitQuestion, planner: LimitPlanner) -> LimitResult:
    """Ask a planner, plan the addresses, and judge the answer.

    A plan counts if its addresses, not only its live bytes, are within the limit. If they are not,
    the planner is asked again for as many fewer bytes.
    """
    started = time.perf_counter()
    step, bound = question.step, question.bound
    least, certificate = bound.seconds, bound.certificate

    def result(status: Status, reason: str = "", **found: object) -> LimitResult:
        fields = {
            "sequence": None, "problem": None, "plan": None, "extra_seconds": np.inf,
            "statistics": {}, **found,
        }  # fmt: skip
        return LimitResult(
            planner=planner.name, status=status, limit=question.limit, reason=reason,
            least_seconds=least, certificate=certificate,
            seconds=time.perf_counter() - started, **fields,  # type: ignore[arg-type]
        )  # fmt: skip

    if np.isinf(least):
        return result(Status.INFEASIBLE, f"no sequence is within the limit, by {certificate}")
    asked = replace(question, budget=question.budget.started())
    reason = ""
    for _ in range(MOST_QUESTIONS):
        try:
            answer = planner.answer(asked)
        except UnsupportedStepError as error:
            return result(Status.UNSUPPORTED, str(error))
        if asked.limit == question.limit and answer.least_seconds > least:
            least, certificate = answer.least_seconds, answer.certificate
        if answer.sequence is None:
            if np.isinf(least):
                return result(Status.INFEASIBLE, f"{answer.reason}, by {certificate}")
            return result(Status.NO_PLAN_FOUND, reason or answer.reason)
        try:
            check_sequence(step, answer.sequence)
        except InvalidPlanError as error:
            return result(Status.INVALID, str(error))
        extra, live, _ = step.core.cost(answer.sequence, asked.limit)
        if live > asked.limit:
            reason = f"{human_bytes(live)} are live at the peak of what it found"
            return result(Status.NO_PLAN_FOUND, reason)
        problem = repeated_problem(step, answer.sequence)
        plan = _plan(problem, question.limit)
        if plan is not None and plan.peak <= question.limit:
            is_best = extra <= least + SAME_SHARE * step.seconds
            return result(
                Status.OPTIMAL if is_best else Status.FEASIBLE,
                answer.reason, sequence=answer.sequence, problem=problem, plan=plan,
                extra_seconds=extra, statistics=answer.statistics,
            )  # fmt: skip
        if plan is None:
            return result(Status.NO_PLAN_FOUND, "no plan of the addresses was found in time")
        reason = (
            f"{human_bytes(live)} are live at the peak, and the addresses need "
            f"{human_bytes(plan.peak)}"
        )
        asked = replace(asked, limit=asked.limit - (plan.peak - question.limit))
        if asked.limit <= 0 or asked.budget.remaining_seconds() == 0:
            break
    return result(Status.NO_PLAN_FOUND, reason)


def _plan(problem: Problem, limit: int) -> Plan | None:
    """Return the best plan of the addresses that was found, or one within the limit."""
    budget = Budget(time_limit_seconds=ADDRESS_SECONDS)
    return run(problem.with_capacity(limit), ADDRESS_PLANNER, budget).plan
