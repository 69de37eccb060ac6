"""The plan file: versioned JSON, written by ``--save-plan`` and read with its problem at hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planners.dynamic.reusable_space import ReusableSpace
from planners.errors import GaplessError, InstanceError, InvalidPlanError, errors_at
from planners.files.json_file import read_json, refuse, require_fields, require_list, write_fields
from planners.files.problem_file import PLAN_FORMAT, problem_digest
from planners.files.reusable_space_fields import space_from_fields, space_to_fields
from planners.model.columns import INT64_MAX
from planners.model.plan import Plan, Result, Status
from planners.model.problem import Problem
from planners.referee.fast import find_violation_fast
from planners.referee.naive import plan_cost
from planners.text.plain_text import shown

VERSION = 1
# The version of a file with a part that readers of version 1 do not know.
VERSION_WITH_PARTS = 2

_FIELDS = {
    "format", "version", "instance", "digest", "planner", "parameters", "seed", "status",
    "peak", "lower_bound", "certificate", "offsets",
}  # fmt: skip
_SPACE = "reusable_space"
# Columns of the instance, for readers who do not have it.
_TENSORS = ("size", "alignment", "tensor_name")
# Of a problem with prices of reuse, or with memories.
_COST = {"cost_bound": 0, "cost_certificate": ""}
_PARTS = {_SPACE, *_TENSORS, *_COST}
_WITH_A_PLAN = {status.value for status in (Status.OPTIMAL, Status.FEASIBLE)}


@dataclass(frozen=True, eq=False)
class SavedPlan:
    """The content of a plan file."""

    result: Result
    # Addresses that dynamic tensors may use; None if the file has no such part.
    reusable_space: ReusableSpace | None


def write_plan(
    problem: Problem,
    result: Result,
    path: str | Path,
    reusable_space: ReusableSpace | None = None,
    *,
    with_tensors: bool = False,
) -> None:
    """Write a plan file.

    Parameters
    ----------
    problem
        The problem that was planned.
    result
        Optimal or feasible.
    path
        Target; gzipped if the name ends in ``.gz``.
    reusable_space
        Addresses that the plan leaves idle for dynamic tensors; None to write none.
    with_tensors
        True to write size, alignment and name of each tensor too, for readers without the instance.

    Raises
    ------
    GaplessError
        The result is neither optimal nor feasible, or the file cannot be written; an old
        file stays.
    """
    if result.plan is None or result.status.value not in _WITH_A_PLAN:
        raise GaplessError(f"plan file {path}: a plan is needed, found {result.status.value}")
    fields = {
        "format": PLAN_FORMAT,
        "version": VERSION,
        "instance": problem.name,
        "digest": problem_digest(problem),
        "planner": result.planner,
        "parameters": dict(result.parameters),
        "seed": result.seed,
        "status": result.status.value,
        "peak": result.plan.peak,
        "lower_bound": result.lower_bound,
        "certificate": result.certificate,
        "offsets": result.plan.offsets.tolist(),
    }
    if reusable_space is not None:
        fields[_SPACE] = space_to_fields(reusable_space)
    if result.cost is not None:
        fields.update({field: getattr(result, field) for field in _COST})
    if with_tensors:
        fields.update(_tensors_to_fields(problem))
    if _PARTS & fields.keys():
        fields["version"] = VERSION_WITH_PARTS
    write_fields(fields, Path(path))


def read_plan(problem: Problem, path: str | Path) -> Result:
    """Read a plan file and judge it, as :func:`read_saved_plan` does; return the plan alone."""
    return read_saved_plan(problem, path).result


def read_saved_plan(problem: Problem, path: str | Path) -> SavedPlan:
    """Read an untrusted plan file and judge the plan and the idle space in it."""
    path = Path(path)
    with errors_at(path):
        fields = read_json(path)
        result = _result_from_fields(problem, fields)
        assert result.plan is not None
        violation = find_violation_fast(problem, result.plan)
        if violation is not None:
            raise InvalidPlanError(str(violation))
        if _SPACE not in fields:
            return SavedPlan(result, None)
        return SavedPlan(result, space_from_fields(fields[_SPACE], problem, result.plan))


def _result_from_fields(problem: Problem, fields: Any) -> Result:
    if isinstance(fields, dict) and "format" in fields:
        _require_value("format", fields, PLAN_FORMAT)
    require_fields("", fields, _FIELDS, _PARTS)
    has_parts = bool(_PARTS & fields.keys())
    _require_value("version", fields, VERSION_WITH_PARTS if has_parts else VERSION)
    cost_bound, proof = (fields.get(field, empty) for field, empty in _COST.items())
    for field in ("instance", "digest", "planner", "status", "certificate", "cost_certificate"):
        if not isinstance(fields.get(field, ""), str):
            refuse(field, "a string", fields[field])
    for field in ("seed", "peak", "lower_bound", "cost_bound"):
        if type(fields.get(field, 0)) is not int or not 0 <= fields.get(field, 0) <= INT64_MAX:
            refuse(field, "a whole number from 0 to 2**63 - 1", fields[field])
    _require_scalars(fields["parameters"])
    require_list("offsets", fields["offsets"])
    digest = problem_digest(problem)
    if fields["digest"] != digest:
        raise InstanceError(
            f"field digest: the plan is for another problem, {shown(fields['instance'])}; "
            f"{problem.name} has {digest}, found {shown(fields['digest'])}"
        )
    for field, values in _tensors_to_fields(problem).items():
        # Names may differ: the names of tensors change no plan.
        if field in fields and field != "tensor_name" and fields[field] != values:
            raise InstanceError(
                f"field {field}: the value of the instance is needed, found another"
            )
    if fields["status"] not in _WITH_A_PLAN:
        refuse("status", "'optimal' or 'feasible'", fields["status"])
    plan, bound = Plan(fields["offsets"], fields["peak"]), fields["lower_bound"]
    priced = problem.cost_decides and len(plan.offsets) == problem.tensor_count
    cost = plan_cost(problem, plan.offsets) if priced else 0
    is_optimal = fields["status"] == Status.OPTIMAL.value
    for field, what, lower, value, decides in (
        ("lower_bound", "peak", bound, plan.peak, not problem.cost_decides),
        ("cost_bound", "cost", cost_bound, cost, priced),
    ):
        if lower > value or (is_optimal and decides and lower != value):
            raise InstanceError(
                f"field {field}: at most the {what}, and the {what} itself for an optimal plan, is "
                f"needed, found {lower} for a {what} of {value}"
            )
    return Result(
        Status(fields["status"]),
        plan,
        lower_bound=bound,
        certificate=fields["certificate"],
        planner=fields["planner"],
        parameters=fields["parameters"],
        seed=fields["seed"],
        cost=cost if priced else None,
        cost_bound=cost_bound,
        cost_certificate=proof,
    )


def _tensors_to_fields(problem: Problem) -> dict[str, Any]:
    columns = {name: getattr(problem, name) for name in _TENSORS}
    return {
        name: list(column) if isinstance(column, tuple) else column.tolist()
        for name, column in columns.items()
        if column is not None
    }


def _require_value(field: str, fields: dict[str, Any], value: str | int) -> None:
    if type(fields[field]) is not type(value) or fields[field] != value:
        refuse(field, repr(value), fields[field])


def _require_scalars(parameters: Any) -> None:
    if not isinstance(parameters, dict):
        refuse("parameters", "an object", parameters)
    for key, value in parameters.items():
        if not isinstance(value, (str, int, float, bool)):
            refuse(f"parameters, key {shown(key)}", "a string, number or boolean", value)
