"""Run a planner: within a budget, timed, judged by the referee, and held against the bounds."""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planners.errors import InstanceError, InvalidPlanError, UnknownPlannerError
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.columns import shown
from planners.model.plan import Claim, Plan, Result, Status, infeasible
from planners.model.problem import Problem
from planners.plugins.planner_answer import OnError, answer_of, plain_parameters
from planners.referee.fast import find_violation_fast
from planners.registry import ChosenPlanner, choose_one

if TYPE_CHECKING:
    from planners.plugins.isolated_run import Isolation


def run(
    problem: Problem,
    planner: ChosenPlanner | str,
    budget: Budget | None = None,
    bounds: Sequence[Bound] = (),
    *,
    isolation: Isolation | None = None,
    on_error: OnError = lambda _error: None,
) -> Result:
    """Run one planner and judge what it answers.

    Parameters
    ----------
    problem
        What to plan.
    planner
        Its name, with parameters as on the command line, or what :func:`planners.get` returns.
        The two in the other order are taken as well, as they once were, with a warning.
    budget
        Limits; none by default.
    bounds
        Lower bounds known of the problem. A plan that meets one is optimal, whoever made it.
    isolation
        Runs the planner in a process of its own, which is ended where it does not end; None
        runs it here.
    on_error
        Called with what a planner raises that makes its answer invalid, where it was raised.

    Returns
    -------
    Result
        Complete; a wrong plan has the status ``invalid`` and the violation as its reason.
    """
    problem, chosen = _in_order(problem, planner)
    budget = (budget or Budget()).started()
    wall, cpu = time.perf_counter(), _cpu_seconds()
    conflict = _pins_in_conflict(problem)
    if conflict is not None:
        answer = conflict
    elif isolation is not None:
        # Imported here because most runs do without it.
        from planners.plugins.isolated_run import answer_in_isolation

        answer = answer_in_isolation(
            problem, budget, isolation, lambda: answer_of(chosen, problem, budget, on_error)
        )
    else:
        answer = answer_of(chosen, problem, budget, on_error)
    answer = replace(
        answer,
        planner=chosen.info.name,
        parameters=plain_parameters({**chosen.info.defaults, **chosen.parameters}),
        seed=budget.seed,
        seconds=time.perf_counter() - wall,
        cpu_seconds=_cpu_seconds() - cpu,
    )
    proofs_count = conflict is not None or chosen.info.built_in
    return judge(problem, answer, bounds, proofs_count=proofs_count)


def judge(
    problem: Problem, answer: Result, bounds: Sequence[Bound] = (), *, proofs_count: bool = True
) -> Result:
    """Hold an answer against the referee, the capacity and the bounds."""
    if answer.status in (Status.INVALID, Status.UNSUPPORTED):
        return replace(answer, plan=None, lower_bound=0, certificate="")
    wrong = _what_is_wrong(problem, answer)
    if wrong:
        return replace(answer, status=Status.INVALID, reason=wrong)
    return with_bounds(problem, answer if proofs_count else _as_claim(answer), bounds)


def _what_is_wrong(problem: Problem, answer: Result) -> str:
    """Say how a planner's plan is wrong, or refutes what the planner says of it."""
    plan, capacity = answer.plan, problem.capacity
    if plan is None:
        return ""
    violation = find_violation_fast(problem, plan)
    if violation is not None:
        return violation
    if answer.lower_bound > plan.peak:
        return (
            f"claims that no plan is below {answer.lower_bound} bytes, and its own plan has "
            f"{plan.peak}"
        )
    if answer.status is Status.OPTIMAL and answer.lower_bound != plan.peak:
        return "claims an optimum without a bound to match"
    if answer.status is Status.INFEASIBLE and (capacity is None or plan.peak <= capacity):
        return f"claims that no plan fits, and its own plan does, with a peak of {plan.peak}"
    return ""


def _as_claim(answer: Result) -> Result:
    """Set apart what a planner says it has proven, and leave what can be judged."""
    is_infeasible = answer.status is Status.INFEASIBLE
    claim = None
    if is_infeasible or answer.lower_bound:
        claim = Claim(answer.certificate, answer.lower_bound, is_infeasible)
    status = Status.NO_PLAN_FOUND if answer.plan is None else Status.FEASIBLE
    return replace(answer, status=status, lower_bound=0, certificate="", claim=claim)


def with_bounds(problem: Problem, answer: Result, bounds: Sequence[Bound]) -> Result:
    """Give an answer the best of the bounds that are known, and the status that follows."""
    if answer.status is Status.INFEASIBLE:
        return answer
    best = max(bounds, key=lambda bound: bound.bytes, default=None)
    # A planner that proved nothing has a bound of 0 without a certificate, and so may give way
    # to a bound of 0 that has one.
    if best is not None and (
        best.bytes > answer.lower_bound
        or (best.bytes == answer.lower_bound and not answer.certificate)
    ):
        answer = replace(answer, lower_bound=best.bytes, certificate=best.name)
    answer = _with_status(problem, answer)
    return replace(answer, claim=None) if _is_confirmed(answer) else answer


def _is_confirmed(answer: Result) -> bool:
    claim = answer.claim
    if claim is None or claim.lower_bound > answer.lower_bound:
        return False
    return not claim.infeasible or answer.status is Status.INFEASIBLE


def _with_status(problem: Problem, answer: Result) -> Result:
    capacity = problem.capacity
    if capacity is not None and answer.lower_bound > capacity:
        return replace(
            answer,
            status=Status.INFEASIBLE,
            reason=f"at least {answer.lower_bound} bytes are needed, the capacity is {capacity}",
        )
    if answer.plan is None:
        return answer
    if capacity is not None and answer.plan.peak > capacity:
        missing = over_capacity(answer.plan, capacity)
        if answer.reason.startswith(missing):  # judged already, with fewer bounds
            return answer
        # What ended the planner says whether more time could help.
        reason = f"{missing}; {answer.reason}" if answer.reason else missing
        return replace(answer, status=Status.NO_PLAN_FOUND, reason=reason)
    is_optimal = answer.plan.peak == answer.lower_bound
    return replace(answer, status=Status.OPTIMAL if is_optimal else Status.FEASIBLE)


def over_capacity(plan: Plan, capacity: int) -> str:
    """Say by how much a plan misses a capacity."""
    return f"the best plan needs {plan.peak - capacity} bytes more than the capacity of {capacity}"


def solve(problem: Problem, planner: ChosenPlanner | str, budget: Budget | None = None) -> Plan:
    """Return the plan of one planner, or raise what stands against it.

    Parameters
    ----------
    problem
        What to plan.
    planner
        As for :func:`run`.
    budget
        Limits; none by default.

    Returns
    -------
    Plan
        Valid, and within the capacity where the problem has one.

    Raises
    ------
    InvalidPlanError
        There is no valid plan to return; the message says why.
    """
    problem, chosen = _in_order(problem, planner)
    result = run(problem, chosen, budget)
    if result.plan is None or result.status not in (Status.OPTIMAL, Status.FEASIBLE):
        raise InvalidPlanError(
            f"planner {chosen.label} on {problem.name}: {result.status.value}, {result.reason}"
        )
    return result.plan


def _in_order(problem: object, planner: object) -> tuple[Problem, ChosenPlanner]:
    if isinstance(planner, Problem) and isinstance(problem, ChosenPlanner | str):
        problem, planner = planner, problem
        warnings.warn(
            "run(planner, problem) is now run(problem, planner)", DeprecationWarning, stacklevel=3
        )
    if not isinstance(problem, Problem):
        raise InstanceError(
            f"problem: a planners.Problem is needed, such as from planners.read_problem(path), "
            f"found {shown(problem)}"
        )
    if isinstance(planner, str):
        return problem, choose_one(planner)
    if not isinstance(planner, ChosenPlanner):
        raise UnknownPlannerError(
            f"planner: a name such as 'auto', or planners.get(name, ...), is needed, found "
            f"{shown(planner)}"
        )
    return problem, planner


def _cpu_seconds() -> float:
    """Processor time of this process and of the children it has waited for, such as CBC."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _pins_in_conflict(problem: Problem) -> Result | None:
    pair = problem.core.conflicting_pins()
    if pair is None:
        return None
    first, second = (problem.describe(tensor) for tensor in pair)
    return infeasible("pinned", f"{first} and {second} are unsafe and pinned to the same bytes")
