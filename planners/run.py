"""Run a planner: within a budget, timed, judged by the referee, and held against the bounds."""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

from planners.bounds import Bound
from planners.budget import Budget
from planners.check import find_violation_fast
from planners.columns import shown
from planners.errors import (
    InstanceError,
    InvalidPlanError,
    MissingDependencyError,
    UnknownPlannerError,
)
from planners.plan import Plan, Result, Status, feasible, infeasible, no_plan_found
from planners.problem import Problem
from planners.registry import ChosenPlanner, UnsupportedProblemError, choose_one


def run(
    problem: Problem,
    planner: ChosenPlanner | str,
    budget: Budget | None = None,
    bounds: Sequence[Bound] = (),
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

    Returns
    -------
    Result
        Complete; a wrong plan has the status ``invalid`` and the violation as its reason.
    """
    problem, chosen = _in_order(problem, planner)
    budget = (budget or Budget()).started()
    wall, cpu = time.perf_counter(), _cpu_seconds()
    answer = _pins_in_conflict(problem) or _answer(chosen, problem, budget)
    answer = replace(
        answer,
        planner=chosen.info.name,
        parameters={**chosen.info.defaults, **chosen.parameters},
        seed=budget.seed,
        seconds=time.perf_counter() - wall,
        cpu_seconds=_cpu_seconds() - cpu,
    )
    return judge(problem, answer, bounds)


def judge(problem: Problem, answer: Result, bounds: Sequence[Bound] = ()) -> Result:
    """Hold an answer against the referee, the capacity and the bounds.

    Parameters
    ----------
    problem
        What was planned.
    answer
        What a planner says.
    bounds
        Lower bounds known of the problem.

    Returns
    -------
    Result
        The answer with the status that it deserves.
    """
    if answer.status in (Status.INVALID, Status.UNSUPPORTED):
        return answer
    if answer.plan is not None:
        violation = find_violation_fast(problem, answer.plan)
        if violation is not None:
            return replace(answer, status=Status.INVALID, reason=violation)
        if answer.lower_bound > answer.plan.peak:
            return replace(
                answer,
                status=Status.INVALID,
                reason=f"claims that no plan is below {answer.lower_bound} bytes, and its own "
                f"plan has {answer.plan.peak}",
            )
        if answer.status is Status.OPTIMAL and answer.lower_bound != answer.plan.peak:
            return replace(
                answer, status=Status.INVALID, reason="claims an optimum without a bound to match"
            )
    return with_bounds(problem, answer, bounds)


def with_bounds(problem: Problem, answer: Result, bounds: Sequence[Bound]) -> Result:
    """Give an answer the best of the bounds that are known, and the status that follows.

    Parameters
    ----------
    problem
        What was planned.
    answer
        Judged already.
    bounds
        Lower bounds known of the problem.

    Returns
    -------
    Result
        With the largest lower bound. A plan that meets it is optimal; a capacity below it is
        proof that no plan fits.
    """
    best = max(bounds, key=lambda bound: bound.bytes, default=None)
    # A planner that proved nothing has a bound of 0 without a certificate, and so may give way
    # to a bound of 0 that has one.
    if best is not None and (
        best.bytes > answer.lower_bound
        or (best.bytes == answer.lower_bound and not answer.certificate)
    ):
        answer = replace(answer, lower_bound=best.bytes, certificate=best.name)
    return _with_status(problem, answer)


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
        if answer.status is Status.INFEASIBLE:
            return answer
        missing = over_capacity(answer.plan, capacity)
        if answer.reason.startswith(missing):  # judged already, with fewer bounds
            return answer
        # What ended the planner says whether more time could help.
        reason = f"{missing}; {answer.reason}" if answer.reason else missing
        return replace(answer, status=Status.NO_PLAN_FOUND, reason=reason)
    if answer.plan.peak == answer.lower_bound:
        return replace(answer, status=Status.OPTIMAL)
    return answer


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


def _answer(chosen: ChosenPlanner, problem: Problem, budget: Budget) -> Result:
    try:
        answer = chosen.info.build(**chosen.parameters)(problem, budget)
    except (UnsupportedProblemError, MissingDependencyError) as error:
        return Result(Status.UNSUPPORTED, reason=str(error))
    except TimeoutError as error:
        return no_plan_found(str(error))
    except (Exception, SystemExit) as error:
        # A third party's planner may fail in any way; the rest goes on.
        return Result(Status.INVALID, reason=f"{type(error).__name__}: {error}")
    if isinstance(answer, Plan):
        answer = feasible(answer)
    complaint = _what_is_malformed(answer)
    return Result(Status.INVALID, reason=complaint) if complaint else answer


def _what_is_malformed(answer: object) -> str:
    """Say what a third party's answer lacks to be judged; empty where it can be."""
    if not isinstance(answer, Result):
        return f"a planner returns a Plan or a Result, found {type(answer).__name__}"
    if not isinstance(answer.status, Status):
        return f"a result has a status of planners.Status, found {answer.status!r:.40}"
    if answer.plan is not None and not isinstance(answer.plan, Plan):
        return f"a result has a planners.Plan or None, found {type(answer.plan).__name__}"
    if type(answer.lower_bound) is not int or answer.lower_bound < 0:
        return f"a lower bound is a whole number of bytes, found {answer.lower_bound!r:.40}"
    if answer.plan is None and answer.status in (Status.OPTIMAL, Status.FEASIBLE):
        return f"a result that is {answer.status.value} needs a plan, found none"
    return ""


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
