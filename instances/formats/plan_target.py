"""The plan that a format shows: judged, with its steps and names, or one error."""

from __future__ import annotations

from typing import NoReturn

from planners.errors import InstanceError, InvalidPlanError
from planners.model.columns import IntColumn
from planners.model.plan import Plan, Result, Status
from planners.model.problem import Problem, Safety
from planners.referee.fast import find_violation_fast


def refuse_target(target: str, needed: str, found: str) -> NoReturn:
    """Raise the ``InstanceError`` for a feature that a format cannot hold."""
    raise InstanceError(f"{target} holds {needed}, found {found}")


def require_valid_plan(problem: Problem, plan: Plan) -> None:
    """Refuse a plan that breaks a constraint of its problem; raises ``InvalidPlanError``.

    The fast referee judges, because a file may hold hundreds of thousands of tensors.
    """
    violation = find_violation_fast(problem, plan)
    if violation is not None:
        raise InvalidPlanError(violation)


def occupied_steps(problem: Problem, plan: Plan, target: str) -> IntColumn:
    """Judge a plan, and return the steps in which each tensor occupies bytes under it.

    The steps of a graph are those of its global order: tensors alive at one step are unsafe, so no
    two of them share a byte there. Rows are ``(tensor, start, end)``, int64, by tensor and start;
    the first step is 0. A tensor with a gap has several rows, an empty tensor none.
    """
    require_lifetimes(problem, target)
    require_valid_plan(problem, plan)
    rows = problem.segments()
    if len(rows):
        rows[:, 1:] -= rows[:, 1].min()
    return rows[problem.size[rows[:, 0]] > 0]


def require_lifetimes(problem: Problem, target: str) -> None:
    """Refuse a problem of which no lifetimes are known; raises ``InstanceError``."""
    if problem.safety is Safety.PAIRS:
        refuse_target(target, "tensors with lifetimes", "explicit unsafe pairs alone")


def stream_of_tensors(problem: Problem) -> list[int]:
    """Return the stream that writes each tensor; 0 without a graph."""
    if problem.graph is None:
        return [0] * problem.tensor_count
    streams: list[int] = problem.graph.stream[problem.graph.producer].tolist()
    return streams


def name_of_tensor(problem: Problem, tensor: int) -> str:
    """Return the name of a tensor in a picture: its own, or its number."""
    return f"tensor {tensor}" if problem.tensor_name is None else problem.tensor_name[tensor]


def planned(result: Result) -> Plan:
    """Return the plan of an optimal or feasible result; raises ``InvalidPlanError``."""
    if result.plan is None or result.status not in (Status.OPTIMAL, Status.FEASIBLE):
        raise InvalidPlanError(f"a plan is needed, found {result.status.value}, {result.reason}")
    return result.plan
