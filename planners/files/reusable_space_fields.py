"""The Dynamic Reusable Space in a plan file: arrays as lists, checked against the plan."""

from __future__ import annotations

from typing import Any

from planners.dynamic.layer_groups import LayerGroups
from planners.dynamic.reusable_space import ReusableSpace, space_of_groups
from planners.dynamic.static_part import static_part
from planners.errors import InstanceError
from planners.files.json_file import refuse, require_fields, require_list
from planners.model.columns import INT64_MAX
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.text.plain_text import shown

COLUMNS = ("visits", "times", "space", "offsets", "intervals")
PREFIX = "reusable_space."
# Limit of groups. Each costs a sweep over the plan; training iterations have some hundreds.
MAX_GROUPS = 1 << 16


def space_to_fields(space: ReusableSpace) -> dict[str, Any]:
    """Return the part ``reusable_space`` of a plan file: plain numbers and lists."""
    columns = {column: getattr(space, column).tolist() for column in COLUMNS}
    return {"pool": space.pool, **columns}


def space_from_fields(fields: Any, problem: Problem, plan: Plan) -> ReusableSpace:
    """Read ``reusable_space`` of a plan file; refuse addresses that the plan does not leave idle.

    The fields are untrusted. The problem is the whole problem, or its static part alone.
    """
    require_fields(PREFIX, fields, {"pool", *COLUMNS}, set())
    if type(fields["pool"]) is not int or not 0 <= fields["pool"] <= INT64_MAX:
        refuse(f"{PREFIX}pool", "a whole number from 0 to 2**63 - 1", fields["pool"])
    for column in COLUMNS:
        require_list(f"{PREFIX}{column}", fields[column])
    if len(fields["visits"]) > MAX_GROUPS:
        refuse(f"{PREFIX}visits", f"at most {MAX_GROUPS} groups", len(fields["visits"]))
    try:
        space = ReusableSpace(fields["pool"], *(fields[column] for column in COLUMNS))
    except InstanceError as error:
        raise InstanceError(f"field reusable_space, {error}") from None
    _require_what_is_idle(space, problem, plan)
    return space


def _require_what_is_idle(space: ReusableSpace, problem: Problem, plan: Plan) -> None:
    static = static_part(problem)
    groups = LayerGroups(space.visits, space.times, space.space[:0], space.space[:0])
    expected = space_of_groups(static.problem, static.plan_within(plan), groups)
    if space.pool != expected.pool:
        refuse(f"{PREFIX}pool", f"the peak of the static tensors, {expected.pool},", space.pool)
    compared: set[tuple[int, int]] = set()
    for group, lists in enumerate(zip(expected.space.tolist(), space.space.tolist(), strict=True)):
        if lists in compared:
            continue
        compared.add(lists)
        needed = expected.idle_intervals(group).tolist()
        found = space.idle_intervals(group).tolist()
        if needed != found:
            idle = f"the idle space of the plan, {shown(needed)},"
            refuse(f"{PREFIX}intervals, group {group}", idle, found)
    if not space.same_as(expected):
        raise InstanceError(
            "field reusable_space.space: lists in the order in which the groups first need them, "
            "each once, are needed"
        )
