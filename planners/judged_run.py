"""Run a planner: within a budget, timed, and judged."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planners.answers.answer_by_parts import answer_by_parts, pins_in_conflict
from planners.answers.planner_answer import OnError, plain_parameters
from planners.errors import GaplessError, InstanceError, InvalidPlanError, UnknownPlannerError
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.findings import Findings, PlannerAnswer
from planners.model.plan import Plan, Result, Status
from planners.model.problem import Problem
from planners.processes.interrupt import Interrupt
from planners.referee.judge import judge_all
from planners.registry import ChosenPlanner, PlannerInfo, choose_one
from planners.text.plain_text import shown

if TYPE_CHECKING:
    from planners.answers.isolated_planner import Isolation


def run(
    problem: Problem,
    planner: ChosenPlanner | str,
    budget: Budget | None = None,
    bounds: Sequence[Bound] = (),
    *,
    isolation: Isolation | None = None,
    on_error: OnError = lambda _error: None,
) -> Result:
    """Run one planner and judge its answer.

    Parameters
    ----------
    problem
        The problem to plan.
    planner
        A planner's name, with parameters as on the command line, or an object of
        :func:`planners.get`.
    budget
        Limits; none by default.
    bounds
        Known lower bounds of the problem. A plan that meets one of them is optimal.
    isolation
        Runs the planner in a separate process, which is killed if it does not end; None runs the
        planner in this process.
    on_error
        Called with an exception of the planner that makes its answer invalid, where it is caught.

    Returns
    -------
    Result
        Complete; a wrong plan has the status ``invalid`` and the violation as its reason.
    """
    problem, chosen = _named(problem, planner)
    answer = answered(problem, chosen, budget, isolation=isolation, on_error=on_error)
    return judge_all(problem, [answer], bounds)[0]


def answered(
    problem: Problem,
    chosen: ChosenPlanner,
    budget: Budget | None = None,
    *,
    isolation: Isolation | None = None,
    on_error: OnError = lambda _error: None,
) -> PlannerAnswer:
    """Run one planner as :func:`run` does, and return its answer, which is not judged."""
    if not isinstance(budget, Budget | None):
        raise GaplessError(f"budget: a planners.Budget is needed, found {shown(budget)}")
    _prepare(chosen.info)
    budget = (budget or Budget()).started()
    wall, cpu = time.perf_counter(), _cpu_seconds()
    conflict = pins_in_conflict(problem)
    if conflict is not None:
        found = conflict
    elif isolation is not None:
        # Imported here because most runs do without it.
        from planners.answers.isolated_planner import answer_in_isolation

        found = answer_in_isolation(
            problem, budget, isolation, lambda: answer_by_parts(chosen, problem, budget, on_error)
        )
    else:
        found = answer_by_parts(chosen, problem, budget, on_error)
        Interrupt.listen_again()
    seconds, cpu_seconds = time.perf_counter() - wall, _cpu_seconds() - cpu
    answer = answer_with(chosen, budget, found)
    return replace(
        answer, proofs_count=conflict is not None or answer.proofs_count, seconds=seconds,
        cpu_seconds=cpu_seconds,
    )  # fmt: skip


def answer_with(chosen: ChosenPlanner, budget: Budget, found: Findings) -> PlannerAnswer:
    """Return findings as the answer of a planner that took no time."""
    parameters = plain_parameters({**chosen.info.defaults, **chosen.parameters})
    return PlannerAnswer(
        chosen.label, found, chosen.info.built_in, chosen.info.name, parameters, budget.seed
    )


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
    result = solved(problem, planner, budget)
    assert result.plan is not None
    return result.plan


def solved(problem: Problem, planner: ChosenPlanner | str, budget: Budget | None = None) -> Result:
    """Return the result of :func:`run` if it has a plan; otherwise raise as :func:`solve` does."""
    problem, chosen = _named(problem, planner)
    result = run(problem, chosen, budget)
    if result.plan is None or result.status not in (Status.OPTIMAL, Status.FEASIBLE):
        raise InvalidPlanError(
            f"planner {chosen.label} on {problem.name}: {result.status.value}, {result.reason}"
        )
    return result


def _named(problem: object, planner: object) -> tuple[Problem, ChosenPlanner]:
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


def _prepare(info: PlannerInfo) -> None:
    """Let a planner import its packages; if that fails, the planner reports it when it runs."""
    try:
        info.prepare()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or Interrupt.has_come():
            raise KeyboardInterrupt from error


def _cpu_seconds() -> float:
    """Processor time of this process and of the children it has waited for, such as CBC."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
