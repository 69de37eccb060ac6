"""Asks a planner for the parts of a problem's plain form, and joins what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planners.answers.planner_answer import OnError, answer_of
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.plain_form import NotPlainError, PlainForm, PlainPart, is_plain, plain_form
from planners.model.plan import Plan, Status
from planners.model.problem import Problem
from planners.registry import ChosenPlanner


def answer_by_parts(
    chosen: ChosenPlanner, problem: Problem, budget: Budget, on_error: OnError = lambda _error: None
) -> Findings:
    """Return a planner's answer to any problem, in whose plain form the planner sees it."""
    if is_plain(problem) or chosen.info.whole:
        return answer_of(chosen, problem, budget, on_error)
    try:
        form = plain_form(problem, memories=chosen.info.memories)
    except NotPlainError as error:
        return Findings(reason=str(error), claimed=Status.UNSUPPORTED)
    if form.infeasible:
        return Findings(reason=form.infeasible, certificate="places", claimed=Status.INFEASIBLE)
    answers: list[Findings] = []
    for index, part in enumerate(form.parts):
        seconds = budget.remaining_seconds() / (len(form.parts) - index)
        share = budget if index + 1 == len(form.parts) else _limited(budget, seconds)
        found = pins_in_conflict(part.problem) or answer_of(chosen, part.problem, share, on_error)
        against = _against(part, found)
        if against is not None:
            return against
        answers.append(found)
    return _joined(problem, form, answers)


def pins_in_conflict(problem: Problem) -> Findings | None:
    """Return the findings that no plan fits, if two unsafe tensors are pinned to the same bytes."""
    pair = problem.core.conflicting_pins()
    if pair is None:
        return None
    first, second = (problem.describe(tensor) for tensor in pair)
    reason = f"{first} and {second} are unsafe and pinned to the same bytes"
    return Findings(certificate="pinned", reason=reason, claimed=Status.INFEASIBLE)


def _limited(budget: Budget, seconds: float) -> Budget:
    if budget.time_limit_seconds is None:
        return budget
    return replace(budget, time_limit_seconds=seconds).started()


def _against(part: PlainPart, found: Findings) -> Findings | None:
    """Return the findings on the whole problem, if those on a part leave nothing to plan."""
    plan, capacity = found.plan, part.problem.capacity
    where = f"memory {part.memory}: " if part.memory else ""
    if found.claimed in (Status.UNSUPPORTED, Status.INVALID, Status.INFEASIBLE):
        return replace(found, plan=None, lower_bound=0, reason=f"{where}{found.reason}")
    if not part.memory or capacity is None:
        return None
    if found.lower_bound > capacity:
        reason = f"{where}at least {found.lower_bound} bytes are needed, it has {capacity}"
        return Findings(
            certificate=found.certificate, reason=reason, claimed=Status.INFEASIBLE,
            interrupted=found.interrupted,
        )  # fmt: skip
    if plan is None or plan.peak > capacity:
        over = "" if plan is None else f"the best plan needs {plan.peak} bytes, it has {capacity}"
        reason = "; ".join(filter(None, (over, found.reason)))
        return Findings(reason=f"{where}{reason}", interrupted=found.interrupted)
    return None


def _joined(problem: Problem, form: PlainForm, answers: Sequence[Findings]) -> Findings:
    bound = form.fixed_cost + sum(found.cost_bound for found in answers)
    names = ["places"] * bool(form.fixed_cost) + [found.cost_certificate for found in answers]
    certificate = ", ".join(dict.fromkeys(filter(None, names)))
    if len(answers) == 1 and not form.parts[0].memory:
        found, plan = answers[0], answers[0].plan
        found = replace(found, cost_bound=bound, cost_certificate=certificate)
        if plan is None:
            return found
        offsets = form.offsets(problem.tensor_count, [plan.offsets])
        return replace(found, plan=Plan.of(problem, offsets))
    plans = [found.plan.offsets for found in answers if found.plan is not None]
    return Findings(
        Plan.of(problem, form.offsets(problem.tensor_count, plans)),
        reason="; ".join(
            f"memory {part.memory}: {found.reason}"
            for part, found in zip(form.parts, answers, strict=True)
            if found.reason
        ),
        interrupted=any(found.interrupted for found in answers),
        statistics={
            f"{part.memory} {name}": value
            for part, found in zip(form.parts, answers, strict=True)
            for name, value in found.statistics.items()
        },
        cost_bound=bound,
        cost_certificate=certificate,
    )
