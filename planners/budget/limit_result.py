"""Ask a budget planner, plan the addresses of what it answers, and judge both."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from planners.budget.check_sequence import checked_sequence, require_placed
from planners.budget.limit_planner import (
    LIMIT_PLANNERS,
    LimitAnswer,
    LimitPlanner,
    LimitQuestion,
)
from planners.budget.repeatable_step import Sequence32, repeated_problem
from planners.errors import InvalidPlanError
from planners.judged_run import run
from planners.model.budget import Budget
from planners.model.columns import frozen_column
from planners.model.findings import Findings
from planners.model.plan import Plan, Status
from planners.model.problem import Problem, Scalar
from planners.processes.planner_answer import MalformedAnswerError, called, take_in
from planners.text.byte_units import human_bytes

# Plans the addresses of a sequence; as a rule it proves at once that its plan is the best.
ADDRESS_PLANNER = "auto"
# Of the time that is left, a planner gets this part, and its addresses this part of the rest.
SHARE_OF_TIME = 1 / 2
# If addresses need more bytes than are live, the planner is asked again for fewer live bytes.
MOST_QUESTIONS = 3
# A difference of seconds below this part of the step is rounding.
SAME_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class LimitResult:
    """The judged answer of one planner to one question.

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
    interrupted
        True if Ctrl-C ended the planner.
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
    statistics: Mapping[str, Scalar] = field(default_factory=dict)
    interrupted: bool = False


def run_under_limit(
    question: LimitQuestion, planner: LimitPlanner, known: Sequence[LimitResult] = ()
) -> LimitResult:
    """Ask a planner, plan the addresses, and judge the answer.

    A plan counts if its addresses, not only its live bytes, are within the limit. If they are not,
    the planner is asked again for as many fewer bytes. A proof counts if the planner is one of this
    package. A planner that fails gives an invalid result. The time limit holds for all of this, and
    for the planners that this one starts from, of which those with a known result to the same
    question are not asked again.
    """
    started = time.perf_counter()
    question = replace(question, budget=question.budget.started())
    result = LimitResult(
        planner=planner.name, status=Status.NO_PLAN_FOUND, limit=question.limit, sequence=None,
        problem=None, plan=None, extra_seconds=np.inf, least_seconds=question.bound.seconds,
        certificate=question.bound.certificate, reason="", seconds=0.0,
    )  # fmt: skip
    if np.isinf(result.least_seconds):
        reason = f"no sequence is within the limit, by {result.certificate}"
        result = replace(result, status=Status.INFEASIBLE, reason=reason)
    else:
        result = _asked_after_others(question, planner, result, known)
    return replace(result, seconds=time.perf_counter() - started)


def _asked_after_others(
    question: LimitQuestion, planner: LimitPlanner, result: LimitResult,
    known: Sequence[LimitResult],
) -> LimitResult:  # fmt: skip
    """Ask the planners that this one starts from, then this one, and return the best result."""
    found = {each.planner: replace(each, planner=planner.name) for each in known}
    best = None
    for other in [each for name in planner.starts_from for each in LIMIT_PLANNERS.matching(name)]:
        if other.name not in found and question.budget.remaining_seconds() == 0:
            continue
        start = found.get(other.name) or _asked(question, other, result)
        is_better = best is None or start.extra_seconds < best.extra_seconds
        if start.sequence is not None and is_better:
            best = start
            question = replace(question, known=start.sequence.copy())
        if start.interrupted or start.status is Status.OPTIMAL:
            return replace(best or start, interrupted=start.interrupted)
    own = _asked(question, planner, result)
    if best is None or own.sequence is not None or own.status is Status.INVALID:
        return own
    return replace(best, statistics=own.statistics, interrupted=own.interrupted)


def _asked(question: LimitQuestion, planner: LimitPlanner, result: LimitResult) -> LimitResult:
    """Ask until the addresses of an answer are within the limit, and return the judged result."""
    step, known = question.step, question.known
    fewest = np.inf if known is None else step.core.cost(known, question.limit)[0]
    asked = question
    for _ in range(MOST_QUESTIONS):
        asked = replace(asked, budget=_part_of(question.budget))
        found = called(lambda: _answer(planner, asked))  # noqa: B023
        if isinstance(found, Findings):
            reason = found.reason if found.claimed else result.reason or found.reason
            return replace(result, status=found.claimed or result.status, reason=reason)
        sequence = found.sequence
        result = replace(result, interrupted=found.interrupted, statistics=found.statistics)
        is_first = asked.limit == question.limit
        if is_first and found.least_seconds > result.least_seconds:
            result = replace(
                result, least_seconds=found.least_seconds, certificate=found.certificate
            )
        if sequence is None:
            if np.isinf(result.least_seconds):
                reason = f"{found.reason}, by {result.certificate}"
                return replace(result, status=Status.INFEASIBLE, reason=reason)
            return replace(result, reason=result.reason or found.reason)
        extra, live, _ = step.core.cost(sequence, asked.limit)
        if live > asked.limit:
            reason = f"{human_bytes(live)} are live at the peak of what it found"
            return replace(result, reason=reason)
        if extra >= fewest:
            return replace(result, reason="it is not faster than what was known")
        problem = repeated_problem(step, sequence)
        plan = _plan(problem, question.limit, _part_of(question.budget))
        if plan is None:
            return replace(result, reason="no plan of the addresses was found in time")
        if plan.peak <= question.limit:
            try:
                require_placed(step, sequence, plan.offsets)
            except InvalidPlanError as error:
                return replace(result, status=Status.INVALID, reason=str(error))
            is_best = extra <= result.least_seconds + SAME_SHARE * step.seconds
            return replace(
                result, status=Status.OPTIMAL if is_best else Status.FEASIBLE,
                reason=found.reason, sequence=sequence, problem=problem, plan=plan,
                extra_seconds=extra,
            )  # fmt: skip
        reason = (
            f"{human_bytes(live)} are live at the peak, and the addresses need "
            f"{human_bytes(plan.peak)}"
        )
        result = replace(result, reason=reason)
        asked = replace(asked, limit=asked.limit - (plan.peak - question.limit))
        is_over = found.interrupted or question.budget.remaining_seconds() == 0
        if asked.limit <= 0 or is_over:
            break
    return result


def _answer(planner: LimitPlanner, question: LimitQuestion) -> LimitAnswer:
    """Return the answer of a planner as plain values, with a sequence that was checked."""
    step = question.step
    answer: Any = planner.answer(question)
    if not isinstance(answer, LimitAnswer):
        found = type(answer).__name__
        raise MalformedAnswerError(f"a planner returns a LimitAnswer, found {found}")
    given, is_interrupted = answer.sequence, answer.interrupted
    said = take_in(
        step.problem,
        Findings(
            certificate=answer.certificate, reason=answer.reason, interrupted=is_interrupted,
            statistics=answer.statistics,
        ),
    )  # fmt: skip
    return LimitAnswer(
        None
        if given is None
        else checked_sequence(step, frozen_column("sequence", given, "place")),
        said.reason,
        # The proof, and the interrupt, of a third party do not count.
        answer.least_seconds if planner.built_in else 0.0,
        said.certificate,
        said.statistics,
        said.interrupted and planner.built_in,
    )


def _plan(problem: Problem, limit: int, budget: Budget) -> Plan | None:
    """Return the best plan of the addresses that was found, or one within the limit."""
    return run(problem.with_capacity(limit), ADDRESS_PLANNER, budget).plan


def _part_of(budget: Budget) -> Budget:
    """Return a budget whose time is a part of what is left of a running one."""
    left = SHARE_OF_TIME * budget.remaining_seconds()
    return replace(budget, time_limit_seconds=left if np.isfinite(left) else None).started()
