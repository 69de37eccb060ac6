"""Structured problems of a compiler's solver: buffers, the memories of each, prices of reuse.

::

    {"schema_version": 1, "profile": "dsa_rp_v1", "instance": "example",
     "problem": {
       "pools": [{"id": 0, "name": "vec", "capacity": 96, "reserved_ranges": []}],
       "buffers": [{"id": 0, "name": "a", "size": 64, "alignment": 32, "allowed_pools": [0],
                    "live_intervals": [{"lower": 0, "upper": 2}]}],
       "constraints": {"colocations": [], "separations": [], "temporal_exclusions": [],
                       "pinned_allocations": []},
       "cost_model": {"reuse_penalties": []},
       "objective": {"aggregation": "lexicographic", "terms": ["capacity_overflow"]}}}
"""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path
from typing import Any

from planners.errors import InstanceError, errors_at
from planners.files.formats import Format, unpacked_head
from planners.files.json_file import read_json, refuse, require_list
from planners.model.columns import INT64_MAX
from planners.model.memories import Memory
from planners.model.problem import Problem

SCHEMA_VERSION = 1

# The fields of the schema that no other format begins with, in any order.
_BEGIN = re.compile(rb'\s*\{\s*"(schema_version|profile|instance|metadata|relaxed_\w+)"\s*:')

Rows = list[dict[str, Any]]
_Pairs = list[tuple[int, int]]


def read_dsa_problem(path: Path) -> Problem:
    """Read a structured problem.

    A single pool without reserved ranges is a capacity. Otherwise each pool is a memory, and an
    offset is an address: the memories begin at multiples of one stride, in the order of the file.
    Whatever the objective of the file, a plan that fits and costs least is asked for.

    Source: the schema of dsa-solver, version 1. Costs of banks are not supported.
    """
    with errors_at(path):
        document = read_json(path)
        fields = _fields(part_of(document, "problem", dict))
        origin = {
            **part_of({"metadata": {}, **document}, "metadata", dict),
            **fields.pop("origin"),
            "format": DSA_PROBLEM.name,
            "file": path.name,
        }
        return Problem(**fields, name=str(document.get("instance", path.name)), origin=origin)


def _recognises(path: Path, head: bytes) -> bool:  # noqa: ARG001 - the first field says it
    return _BEGIN.match(unpacked_head(head)) is not None


DSA_PROBLEM = Format("dsa-problem", (".json", ".json.gz"), _recognises, read_dsa_problem)


def _fields(problem: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a problem that follow from those of the file."""
    buffers, constraints = rows_of(problem, "buffers"), part_of(problem, "constraints", dict)
    if "bank_cost" in part_of(part_of(problem, "objective", dict), "terms", list):
        raise InstanceError("field objective: the cost of banks is not supported")
    number, count = numbers_of("buffers", buffers), len(buffers)
    pools, pins = rows_of(problem, "pools"), rows_of(constraints, "pinned_allocations")
    pool_number = numbers_of("pools", pools)
    allowed = [_allowed(buffer, pool_number) for buffer in buffers]
    pinned: dict[int, tuple[int, int]] = {}
    for pin in pins:
        tensor = named(pin, "buffer", number)
        pool = named(pin, "pool", pool_number)
        if pool not in allowed[tensor] or tensor in pinned:
            refuse("pinned_allocations", "one allowed pool of each buffer", pin)
        pinned[tensor] = pool, whole(pin, "offset")
    group = _groups(_pairs(constraints, "colocations", number), count)
    members: dict[int, list[int]] = {}
    for tensor, head in enumerate(group):
        members.setdefault(head, []).append(tensor)
    apart = _pairs(constraints, "separations", number)
    kept_apart = {frozenset(pair) for pair in apart}
    lives = [_live(buffer) for buffer in buffers]
    first, last = min(live[0][0] for live in lives), max(end for live in lives for _, end in live)
    # A pin that is exclusive for all time makes its tensor live always.
    always = {number[pin["buffer"]] for pin in pins if pin.get("exclusive_for_all_time")}
    for tensor in always:
        lives[tensor] = [(first, last)]
    names = [str(buffer.get("name", "")) for buffer in buffers]
    size = [whole(buffer, "size") for buffer in buffers]
    alignment = [whole(buffer, "alignment") for buffer in buffers]
    begin, where = _where(pools, allowed, sum(size) + sum(alignment), max(alignment))
    for tensor, (pool, offset) in pinned.items():
        end = where["memories"][pool].capacity if "memories" in where else INT64_MAX
        if offset + size[tensor] > end:
            refuse("offset", f"a pin whose bytes end at {end} or below", offset)
    return {
        **_lifetimes(lives),
        **where,
        "size": size,
        "alignment": alignment,
        "pinned": {tensor: begin[pool] + offset for tensor, (pool, offset) in pinned.items()},
        "together": [its for its in members.values() if len(its) > 1],
        "apart": apart,
        "exclusive": [
            pair
            for pair in _pairs(constraints, "temporal_exclusions", number)
            if frozenset(pair) not in kept_apart and always.isdisjoint(pair)
        ],
        "reuse_prices": _prices(problem, number, group),
        "tensor_name": names if any(names) else None,
        "origin": {"memory": str(pools[0].get("name"))} if "capacity" in where else {},
    }


def _where(
    pools: Rows, allowed: list[list[int]], bytes_of_all: int, strictest: int
) -> tuple[list[int], dict[str, Any]]:
    """Return where each pool begins, and the capacity or the memories and places."""
    reserved = [_reserved(pool) for pool in pools]
    # Without an end, a memory takes all buffers side by side.
    ends = [
        bytes_of_all + (ranges[-1][1] if ranges else 0)
        if pool.get("capacity") is None
        else whole(pool, "capacity")
        for pool, ranges in zip(pools, reserved, strict=True)
    ]
    if len(pools) == 1 and not reserved[0]:
        return [0], {"capacity": None if pools[0].get("capacity") is None else ends[0]}
    stride = -(-max(ends) // max(1, strictest)) * strictest
    begin = [stride * index for index in range(len(pools))]
    memories = [
        Memory(str(pool.get("name")), first, end, 1, tuple(ranges))
        for pool, first, end, ranges in zip(pools, begin, ends, reserved, strict=True)
    ]
    places = [
        (tensor, pool, 0)
        for tensor, its in enumerate(allowed)
        if len(its) < len(pools)
        for pool in its
    ]
    return begin, {"memories": memories, "places": places}


def _reserved(pool: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the reserved ranges of a pool, rising and apart."""
    rows = [(whole(row, "begin"), whole(row, "end")) for row in rows_of(pool, "reserved_ranges")]
    rows.sort()
    merged: list[tuple[int, int]] = []
    for begin, end in rows:
        if merged and begin <= merged[-1][1] and begin < end:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def _allowed(buffer: dict[str, Any], pool_number: dict[int, int]) -> list[int]:
    ids = part_of(buffer, "allowed_pools", list)
    its = {named({"allowed_pools": pool}, "allowed_pools", pool_number) for pool in ids}
    if not 0 < len(its) == len(ids):
        refuse("allowed_pools", "at least one pool, each once", ids)
    return sorted(its)


def _groups(together: _Pairs, count: int) -> list[int]:
    """Return the first tensor of each tensor's group; one without a group has its own."""
    head = list(range(count))

    def first_of(tensor: int) -> int:
        while head[tensor] != tensor:
            head[tensor] = tensor = head[head[tensor]]
        return tensor

    for one, other in together:
        low, high = sorted((first_of(one), first_of(other)))
        head[high] = low
    return [first_of(tensor) for tensor in range(count)]


def _prices(
    problem: dict[str, Any], number: dict[int, int], group: list[int]
) -> list[tuple[int, int, int]]:
    """Return the price of each pair: prices of one pair add up, and a group pays none within."""
    model = problem.get("cost_model", {"reuse_penalties": []})
    prices: dict[frozenset[int], tuple[int, int, int]] = {}
    for row in rows_of(model, "reuse_penalties"):
        one, other = named(row, "first", number), named(row, "second", number)
        before = prices.get(frozenset((one, other)), (one, other, 0))
        if group[one] != group[other]:
            prices[frozenset((one, other))] = (*before[:2], before[2] + whole(row, "cost"))
    return [row for row in prices.values() if row[2]]


def _live(buffer: dict[str, Any]) -> _Pairs:
    steps = [
        (whole(row, "lower", -INT64_MAX), whole(row, "upper", -INT64_MAX))
        for row in rows_of(buffer, "live_intervals")
    ]
    if not steps:
        refuse("live_intervals", "at least one interval", steps)
    return sorted(steps)


def _lifetimes(lives: list[_Pairs]) -> dict[str, Any]:
    # The largest end so far, for an interval may lie within an earlier one.
    ends = [list(accumulate((end for _, end in live), max)) for live in lives]
    return {
        "start": [live[0][0] for live in lives],
        "end": [its[-1] for its in ends],
        "gaps": [
            (tensor, before, after)
            for tensor, (live, its) in enumerate(zip(lives, ends, strict=True))
            for before, (after, _) in zip(its, live[1:], strict=False)
            if before < after
        ],
    }


def _pairs(constraints: dict[str, Any], name: str, number: dict[int, int]) -> _Pairs:
    return [
        (named(row, "first", number), named(row, "second", number))
        for row in rows_of(constraints, name)
    ]


def numbers_of(name: str, rows: Rows) -> dict[int, int]:
    """Return the number of each row by its id."""
    number = {whole(row, "id"): index for index, row in enumerate(rows)}
    if not 0 < len(number) == len(rows):
        refuse(name, "at least one, each with an id of its own", f"{len(rows)} with {len(number)}")
    return number


def named(row: dict[str, Any], field: str, number: dict[int, int]) -> int:
    """Return the number of the row that a field names."""
    name = whole(row, field)
    if name not in number:
        refuse(field, "an id that the file has", name)
    return number[name]


def rows_of(fields: dict[str, Any], name: str) -> Rows:
    """Return a list of objects."""
    rows: Rows = part_of(fields, name, list)
    for row in rows:
        if not isinstance(row, dict):
            refuse(name, "a list of objects", row)
    return rows


def part_of(fields: Any, name: str, kind: type[Any]) -> Any:
    """Return a list or an object."""
    value = fields.get(name) if isinstance(fields, dict) else None
    if kind is list:
        require_list(name, value)
    elif not isinstance(value, kind):
        refuse(name, "an object", value)
    return value


def whole(fields: dict[str, Any], name: str, least: int = 0) -> int:
    """Return a whole number that fits int64."""
    value = fields.get(name)
    if type(value) is not int or not least <= value <= INT64_MAX:
        refuse(name, f"a whole number from {least} to 2**63 - 1", value)
    return value
