"""The judge: turns the findings of a planner into a result, and alone decides its status."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planners.model.bounds import Bound
from planners.model.findings import Findings, PlannerAnswer
from planners.model.plan import Claim, Result, Status
from planners.model.problem import Problem
from planners.referee.fast import find_violation_fast
from planners.referee.naive import plan_cost

# Results with these statuses have only a reason; their plans and bounds do not count.
NO_ANSWER = (Status.INVALID, Status.UNSUPPORTED)


def judge(problem: Problem, found: Findings, bounds: Sequence[Bound] = ()) -> Result:
    """Return the result of the findings of one planner whose proofs count."""
    return judge_all(problem, [PlannerAnswer("", found)], bounds)[0]


def judge_all(
    problem: Problem, answers: Sequence[PlannerAnswer], bounds: Sequence[Bound] = ()
) -> list[Result]:
    """Return the results of planners, checked by referee, capacity, known bounds and each other.

    If a valid plan refutes a bound or the claim of an answer, its result becomes invalid. The
    best of the other bounds, on the peak and on the cost, apply to all results: every plan that
    meets the one that decides is optimal.
    """
    labels = [answer.label for answer in answers]
    results = _without_refuted(problem, labels, [_alone(problem, answer) for answer in answers])
    nothing = np.empty(0, dtype=np.int64)
    answered = [result for result in results if result.status not in NO_ANSWER]
    proven = [Bound(result.certificate, result.lower_bound, nothing) for result in answered]
    best = max([*bounds, *proven], key=lambda bound: bound.bytes, default=None)
    cost, by = max(
        ((result.cost_bound, result.cost_certificate) for result in answered), default=(0, "")
    )
    return [
        result
        if result.status in NO_ANSWER
        else _held_against(problem, replace(result, cost_bound=cost, cost_certificate=by), best)
        for result in results
    ]


def judge_cost(
    problem: Problem, found: Findings, cost: float, least_cost: float, rounding: float
) -> Result:
    """Return the result of findings that have a cost, and need only be within the capacity.

    A plan is optimal if its cost is the least cost, as far as rounding lets one tell. An infinite
    least cost proves that nothing is within the capacity.
    """
    result = judge(problem, found)
    if result.status in NO_ANSWER:
        return result
    if least_cost == math.inf:
        return replace(result, status=Status.INFEASIBLE, plan=None)
    if result.status in (Status.OPTIMAL, Status.FEASIBLE):
        is_best = cost <= least_cost + rounding
        return replace(result, status=Status.OPTIMAL if is_best else Status.FEASIBLE)
    return result


def _alone(problem: Problem, answer: PlannerAnswer) -> Result:
    """Return the result of an answer by itself, which has no status yet unless it is final."""
    found = answer.found
    result = Result(
        Status.NO_PLAN_FOUND, found.plan, found.lower_bound, found.certificate, found.reason,
        answer.planner, answer.parameters, answer.seed, answer.seconds, answer.cpu_seconds,
        found.statistics, interrupted=found.interrupted, cost_bound=found.cost_bound,
        cost_certificate=found.cost_certificate,
    )  # fmt: skip
    if found.claimed in NO_ANSWER:
        return replace(_without_proofs(result), status=found.claimed, plan=None)
    wrong = _what_is_wrong(problem, found)
    if wrong:
        return replace(result, status=Status.INVALID, reason=wrong)
    if found.claimed is Status.INFEASIBLE:
        result = replace(result, status=Status.INFEASIBLE)
    if found.plan is not None and (len(problem.reuse_prices) or problem.memories):
        result = replace(result, cost=plan_cost(problem, found.plan.offsets))
    return result if answer.proofs_count else _as_claim(result)


def _what_is_wrong(problem: Problem, found: Findings) -> str:
    """Return the fault of a planner's plan, or the finding that the planner's own plan refutes."""
    plan, capacity = found.plan, problem.capacity
    if plan is None:
        return ""
    violation = find_violation_fast(problem, plan)
    if violation is not None:
        return violation
    if found.lower_bound > plan.peak:
        return (
            f"claims that no plan is below {found.lower_bound} bytes, and its own plan has "
            f"{plan.peak}"
        )
    cost, decides = plan_cost(problem, plan.offsets), problem.cost_decides
    fits = capacity is None or plan.peak <= capacity
    if decides and fits and found.cost_bound > cost:
        return f"claims that no plan costs less than {found.cost_bound}, and its own costs {cost}"
    met = found.cost_bound == cost if decides else found.lower_bound == plan.peak
    if found.claimed is Status.OPTIMAL and not met:
        return "claims an optimum without a bound to match"
    if found.claimed is Status.INFEASIBLE and fits:
        return f"claims that no plan fits, and its own plan does, with a peak of {plan.peak}"
    return ""


def _as_claim(result: Result) -> Result:
    """Move a proof that the planner states into a claim, and leave its plan to be judged."""
    claim = Claim(
        result.certificate or result.cost_certificate, result.lower_bound,
        result.status is Status.INFEASIBLE, result.cost_bound,
    )  # fmt: skip
    return replace(_without_proofs(result), status=Status.NO_PLAN_FOUND, claim=claim)


def _without_proofs(result: Result) -> Result:
    return replace(result, lower_bound=0, certificate="", cost_bound=0, cost_certificate="")


def _held_against(problem: Problem, result: Result, best: Bound | None) -> Result:
    """Return a result with the best known bound, and the status that follows from it.

    A result that is infeasible by its own proof needs no better bound.
    """
    held = _with_status(problem, result)
    # A planner that proved nothing has the bound 0 without a certificate. A known bound of 0 with a
    # certificate replaces it.
    if (
        held.status is not Status.INFEASIBLE
        and best is not None
        and (best.bytes, True) > (result.lower_bound, bool(result.certificate))
    ):
        better = replace(result, lower_bound=best.bytes, certificate=best.name)
        held = _with_status(problem, better)
    return replace(held, claim=None) if _is_confirmed(held) else held


def _with_status(problem: Problem, result: Result) -> Result:
    plan, bound, capacity = result.plan, result.lower_bound, problem.capacity
    status, reason = result.status, result.reason
    if status is Status.INFEASIBLE:
        pass
    elif capacity is not None and bound > capacity:
        status = Status.INFEASIBLE
        reason = f"at least {bound} bytes are needed, the capacity is {capacity}"
    elif plan is not None and capacity is not None and plan.peak > capacity:
        over = plan.peak - capacity
        reason = f"the best plan needs {over} bytes more than the capacity of {capacity}"
        # The planner's own reason tells whether more time could help.
        reason += f"; {result.reason}" if result.reason else ""
    elif plan is not None:
        is_best = result.cost == result.cost_bound if problem.cost_decides else plan.peak == bound
        status = Status.OPTIMAL if is_best else Status.FEASIBLE
    return replace(result, status=status, reason=reason, said=result.reason)


def _is_confirmed(result: Result) -> bool:
    """Return True if a result has a claim, and the claim says no more than is proven by now."""
    claim = result.claim
    if claim is None or claim.lower_bound > result.lower_bound:
        return False
    if claim.cost_bound > result.cost_bound:
        return False
    return not claim.infeasible or result.status is Status.INFEASIBLE


def _without_refuted(
    problem: Problem, labels: Sequence[str], results: Sequence[Result]
) -> list[Result]:
    """Return the results; those with a bound or claim that a valid plan refutes become invalid."""
    plans = [
        (result.plan.peak, result.cost or 0, label)
        for label, result in zip(labels, results, strict=True)
        if result.valid and result.plan is not None
    ]
    if not plans:
        return list(results)
    peak, _, by = min(plans)
    capacity = peak if problem.capacity is None else problem.capacity
    least, of = min(
        ((cost, of) for used, cost, of in plans if used <= capacity), default=(None, by)
    )
    settled = list(results)
    for index, result in enumerate(results):
        witness = f"the valid plan of {by} has a peak of {peak}"
        claim = _refuted_claim(result, peak, peak <= capacity)
        if not claim and problem.cost_decides and least is not None:
            claim, witness = _refuted_cost(result, least), f"the plan of {of} costs {least}"
        if claim:
            reason = f"{labels[index]} {claim}, and {witness}"
            settled[index] = replace(result, status=Status.INVALID, reason=reason, claim=None)
    return settled


def _refuted_claim(result: Result, peak: int, fits: bool) -> str:
    """Return the bound or claim of a result that a valid plan of this peak refutes, if any."""
    if result.status in NO_ANSWER:
        return ""
    own = Claim(result.certificate, result.lower_bound, result.status is Status.INFEASIBLE)
    for claim in filter(None, (own, result.claim)):
        if claim.lower_bound > peak:
            return str(replace(claim, infeasible=False, cost_bound=0))
        if claim.infeasible and fits:
            return str(claim)
    return ""


def _refuted_cost(result: Result, cost: int) -> str:
    """Return the bound or claim that a plan of this cost within the capacity refutes, if any."""
    if result.status in NO_ANSWER:
        return ""
    own = Claim(result.cost_certificate, 0, infeasible=False, cost_bound=result.cost_bound)
    over = (claim for claim in (own, result.claim) if claim and claim.cost_bound > cost)
    return "".join(map(str, over))
