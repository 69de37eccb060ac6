"""Writes problems in the schema of dsa-solver, which reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from instances.formats.dsa_problem import SCHEMA_VERSION
from instances.formats.plan_target import refuse_target
from planners.files.json_file import write_fields
from planners.model.blocks import NOT_PINNED
from planners.model.problem import Problem, Safety

TARGET = "a structured problem of dsa-solver"


def write_dsa_problem(problem: Problem, path: Path) -> None:
    """Write a structured problem: a tensor has its number as id, and a memory likewise.

    The file does not say where memories begin: read again, they have the stride of the reader.
    """
    require_dsa_holds(problem)
    one_pool = len(problem.memories) <= 1 and not problem.has_classes
    # The profiles of compilers ask for what only they know; these two do not.
    profile = "dsa_rp_v1" if one_pool else "pypto_structured"
    fields = {
        "schema_version": SCHEMA_VERSION,
        "profile": profile,
        "instance": problem.name or "problem",
        "problem": {
            "pools": _pools(problem),
            "buffers": _buffers(problem),
            "constraints": _constraints(problem),
            **_prices(problem),
        },
    }
    write_fields(fields, path)


def require_dsa_holds(problem: Problem) -> None:
    """Refuse a problem that the schema cannot hold; raises ``InstanceError``."""
    if not problem.tensor_count or not problem.size.all():
        refuse_target(TARGET, "at least one tensor, and none without bytes", "others")
    if problem.safety is Safety.PAIRS or problem.stream_count > 1:
        found = problem.safety.value
        refuse_target(TARGET, "lifetimes that decide which tensors may share bytes", found)
    if problem.contiguous:
        found = f"{len(problem.contiguous)} chains"
        refuse_target(TARGET, "tensors without order in memory", found)
    for memory in problem.memories:
        if memory.alignment > 1:
            refuse_target(TARGET, "memories of alignment 1", f"{memory.name}: {memory.alignment}")
    for tensor, _, cost in problem.places[problem.places[:, 2] > 0][:1].tolist():
        needed = "memories in which tensors lie at no cost"
        refuse_target(TARGET, needed, f"{problem.describe(tensor)} at {cost}")


def _pools(problem: Problem) -> list[dict[str, Any]]:
    if not problem.memories:
        name = str(problem.origin.get("memory", "memory"))
        capacity = problem.capacity
        return [{"id": 0, "name": name, "capacity": capacity, "reserved_ranges": []}]
    return [
        {
            "id": index,
            "name": memory.name,
            "capacity": memory.capacity,
            "reserved_ranges": [{"begin": begin, "end": end} for begin, end in memory.reserved],
        }
        for index, memory in enumerate(problem.memories)
    ]


def _buffers(problem: Problem) -> list[dict[str, Any]]:
    names = list(problem.tensor_name or [""] * problem.tensor_count)
    # Names without characters may come again, others not.
    seen: set[str] = set()
    for tensor, name in enumerate(names):
        if name in seen:
            names[tensor] = f"{name} ({tensor})"
        elif name:
            seen.add(name)
    lives: list[list[dict[str, int]]] = [[] for _ in names]
    for tensor, lower, upper in problem.segments().tolist():
        lives[tensor].append({"lower": lower, "upper": upper})
    allowed: dict[int, list[int]] = {}
    for tensor, memory, _ in problem.places.tolist():
        allowed.setdefault(tensor, []).append(memory)
    everywhere = list(range(max(1, len(problem.memories))))
    return [
        {
            "id": tensor,
            "name": name,
            "size": int(problem.size[tensor]),
            "alignment": int(problem.alignment[tensor]),
            "live_intervals": lives[tensor],
            "allowed_pools": allowed.get(tensor, everywhere),
        }
        for tensor, name in enumerate(names)
    ]


def _constraints(problem: Problem) -> dict[str, Any]:
    pins = []
    for tensor in np.flatnonzero(problem.pinned != NOT_PINNED).tolist():
        pool, offset = _place_of_pin(problem, tensor)
        pin = {"buffer": tensor, "pool": pool, "offset": offset}
        pins.append({**pin, "exclusive_for_all_time": False})
    together = [(group[0], other) for group in problem.together for other in group[1:]]
    return {
        "colocations": _pairs(together),
        "separations": _pairs(problem.apart.tolist()),
        "temporal_exclusions": _pairs(problem.exclusive.tolist()),
        "pinned_allocations": pins,
    }


def _place_of_pin(problem: Problem, tensor: int) -> tuple[int, int]:
    """Return the memory of a pinned tensor, and the offset there."""
    pin = int(problem.pinned[tensor])
    if not problem.memories:
        return 0, pin
    spans = enumerate((memory.begin, memory.end) for memory in problem.memories)
    fitting = ((index, pin - begin) for index, (begin, end) in spans if begin <= pin < end)
    place = next(fitting, None)
    if place is None:
        refuse_target(TARGET, "pins within a memory", f"{problem.describe(tensor)} at {pin}")
    return place


def _prices(problem: Problem) -> dict[str, Any]:
    rows = [
        {"first": one, "second": other, "cost": price, "reason": "generic"}
        for one, other, price in problem.reuse_prices.tolist()
    ]
    limited = bool(problem.memories) or problem.capacity is not None
    terms = ["capacity_overflow"] * limited + ["reuse_cost"] * bool(rows)
    return {
        **({"cost_model": {"reuse_penalties": rows}} if rows else {}),
        "objective": {"aggregation": "lexicographic", "terms": [*terms, "total_peak", "max_peak"]},
    }


def _pairs(rows: list[Any]) -> list[dict[str, int]]:
    return [{"first": one, "second": other} for one, other in rows]
