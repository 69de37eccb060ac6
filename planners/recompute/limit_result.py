"""Ask a planner, plan the addresses of its answer, and have both judged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from planners.answers.planner_answer import MalformedAnswerError, called, take_in
from planners.errors import InvalidPlanError
from planners.judged_run import run
from planners.model.budget import Budget
from planners.model.columns import frozen_column
from planners.model.findings import Findings
from planners.model.plan import Result, Status
from planners.model.problem import Problem
from planners.recompute.check_sequence import checked_sequence, require_placed
from planners.recompute.limit_planner import (
    LIMIT_PLANNERS,
    LimitAnswer,
    LimitPlanner,
    LimitQuestion,
)
from planners.recompute.repeatable_step import Sequence32, repeated_problem
from planners.referee.judge import judge_cost
from planners.text.byte_units import human_bytes

# Plans the addresses of a sequence; as a rule it proves at once that its plan is the best.
ADDRESS_PLANNER = "auto"
# Of the time that is left, a planner gets this part, and its addresses this part of the rest.
SHARE_OF_TIME = 1 / 2
# If addresses need more bytes than are live, the planner is asked again for fewer live bytes.
MOST_QUESTIONS = 3
# A difference of seconds below this part of the step is rounding.
SAME_SHARE = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class LimitResult(Result):
    """The judged result of one planner at one limit.

    It is ``optimal`` if its seconds meet the lower bound, and ``infeasible`` if the bound is
    infinite.

    Parameters
    ----------
    limit
        Bytes asked for.
    sequence
        Nodes and copies in the order in which they run, or None.
    problem
        The problem of that sequence; ``plan`` has its addresses.
    extra_seconds
        Seconds that the step takes more.
    least_seconds
        Lower bound on the seconds more within the limit; ``certificate`` names its proof.
    """

    limit: int = 0
    sequence: Sequence32 | None = None
    problem: Problem | None = None
    extra_seconds: float = np.inf
    least_seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class _Found:
    """What a planner found, before the judge gives it a status."""

    said: Findings
    least_seconds: float
    certificate: str
    sequence: Sequence32 | None = None
    problem: Problem | None = None
    extra_seconds: float = np.inf


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
    if np.isinf(question.bound.seconds):
        nothing = _Found(Findings(), question.bound.seconds, question.bound.certificate)
        result = _judged(question, planner, nothing)
    else:
        result = _asked_after_others(question, planner, known)
    return replace(result, seconds=time.perf_counter() - started)


def _asked_after_others(
    question: LimitQuestion, planner: LimitPlanner, known: Sequence[LimitResult]
) -> LimitResult:
    """Ask the planners that this one starts from, then this one, and return the best result."""
    found = {each.planner: replace(each, planner=planner.name) for each in known}
    best = None
    for other in [each for name in planner.starts_from for each in LIMIT_PLANNERS.matching(name)]:
        if other.name not in found and question.budget.remaining_seconds() == 0:
            continue
        start = found.get(other.name) or replace(_asked(question, other), planner=planner.name)
        is_better = best is None or start.extra_seconds < best.extra_seconds
        if start.sequence is not None and is_better:
            best = start
            question = replace(question, known=start.sequence.copy())
        if start.interrupted or start.status is Status.OPTIMAL:
            return replace(best or start, interrupted=start.interrupted)
    own = _asked(question, planner)
    if best is None or own.sequence is not None or own.status is Status.INVALID:
        return own
    return replace(best, statistics=own.statistics, interrupted=own.interrupted)


def _asked(question: LimitQuestion, planner: LimitPlanner) -> LimitResult:
    """Ask until the addresses of an answer are within the limit, and return the judged result."""
    found = _Found(Findings(), question.bound.seconds, question.bound.certificate)
    asked = question
    for _ in range(MOST_QUESTIONS):
        asked = replace(asked, budget=_part_of(question.budget))
        answer = called(partial(_answer, planner, asked))
        if isinstance(answer, Findings):
            reason = answer.reason if answer.claimed else found.said.reason or answer.reason
            found = replace(found, said=replace(answer, reason=reason))
            break
        found, over = _placed(question, asked.limit, found, answer)
        asked = replace(asked, limit=asked.limit - over)
        is_late = answer.interrupted or question.budget.remaining_seconds() == 0
        if not over or asked.limit <= 0 or is_late:
            break
    return _judged(question, planner, found)


def _placed(
    question: LimitQuestion, limit: int, found: _Found, answer: LimitAnswer
) -> tuple[_Found, int]:
    """Return an answer with a plan of its addresses, and the bytes that these are over the limit.

    `limit` is the limit that the planner was asked for.
    """
    step, sequence = question.step, answer.sequence
    said = Findings(interrupted=answer.interrupted, statistics=answer.statistics)
    if limit == question.limit and answer.least_seconds > found.least_seconds:
        found = replace(found, least_seconds=answer.least_seconds, certificate=answer.certificate)

    def without_plan(reason: str, over: int = 0) -> tuple[_Found, int]:
        return replace(found, said=replace(said, reason=reason)), over

    if sequence is None:
        return without_plan(found.said.reason or answer.reason)
    extra, live, _ = step.core.cost(sequence, limit)
    if live > limit:
        return without_plan(f"{human_bytes(live)} are live at the peak of what it found")
    if question.known is not None and extra >= step.core.cost(question.known, question.limit)[0]:
        return without_plan("it is not faster than what was known")
    problem = repeated_problem(step, sequence)
    within = problem.with_capacity(question.limit)
    plan = run(within, ADDRESS_PLANNER, _part_of(question.budget)).plan
    if plan is None:
        return without_plan("no plan of the addresses was found in time")
    if plan.peak > question.limit:
        return without_plan(
            f"{human_bytes(live)} are live at the peak, and the addresses need "
            f"{human_bytes(plan.peak)}",
            plan.peak - question.limit,
        )
    try:
        require_placed(step, sequence, plan.offsets)
    except InvalidPlanError as error:
        return replace(found, said=Findings(reason=str(error), claimed=Status.INVALID)), 0
    said = replace(said, plan=plan, reason=answer.reason)
    return replace(found, said=said, sequence=sequence, problem=problem, extra_seconds=extra), 0


def _judged(question: LimitQuestion, planner: LimitPlanner, found: _Found) -> LimitResult:
    said = found.said
    if np.isinf(found.least_seconds) and said.claimed is None:
        why = said.reason or "no sequence is within the limit"
        said = replace(said, reason=f"{why}, by {found.certificate}")
    result = judge_cost(
        (found.problem or question.step.problem).with_capacity(question.limit), said,
        found.extra_seconds, found.least_seconds, SAME_SHARE * question.step.seconds,
    )  # fmt: skip
    judged = LimitResult(
        result.status, certificate=found.certificate, reason=result.reason, planner=planner.name,
        statistics=result.statistics, interrupted=result.interrupted, limit=question.limit,
        least_seconds=found.least_seconds,
    )  # fmt: skip
    if result.status not in (Status.OPTIMAL, Status.FEASIBLE):
        return judged
    return replace(
        judged, plan=result.plan, sequence=found.sequence, problem=found.problem,
        extra_seconds=found.extra_seconds,
    )  # fmt: skip


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


def _part_of(budget: Budget) -> Budget:
    """Return a budget of a share of the time that a running budget has left."""
    left = SHARE_OF_TIME * budget.remaining_seconds()
    return replace(budget, time_limit_seconds=left if np.isfinite(left) else None).started()
