"""Structured problems of a compiler's solver: buffers of one memory, separations, prices of reuse.

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
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from planners.errors import InstanceError, errors_at
from planners.files.formats import Format, unpacked_head
from planners.files.json_file import read_json, refuse, require_list
from planners.model.columns import INT64_MAX
from planners.model.problem import Problem

SCHEMA_VERSION = 1
# Limits the buffers, whose pairs are listed if some are separated. A guess.
MOST_BUFFERS = 4096

# The fields of the schema that no other format begins with, in any order.
_BEGIN = re.compile(rb'\s*\{\s*"(schema_version|profile|instance|metadata|relaxed_\w+)"\s*:')

_Rows = list[dict[str, Any]]


def read_dsa_problem(path: Path) -> Problem:
    """Read a structured problem whose buffers all lie in one memory.

    A reserved range of the memory becomes a pinned tensor that is always live. If buffers are
    separated or exclude each other in time, explicit pairs decide safety in place of lifetimes.

    Source: the schema of dsa-solver, version 1. Colocations and costs of banks are not supported.
    """
    with errors_at(path):
        whole = read_json(path)
        problem = _of(whole, "problem", dict)
        buffers = _rows(problem, "buffers")
        if not 1 <= len(buffers) <= MOST_BUFFERS:
            refuse("problem.buffers", f"1 to {MOST_BUFFERS} buffers", len(buffers))
        constraints = _of(problem, "constraints", dict)
        if _rows(constraints, "colocations"):
            raise InstanceError("field colocations: buffers at one address are not supported")
        if "bank_cost" in _of(_of(problem, "objective", dict), "terms", list):
            raise InstanceError("field objective: the cost of banks is not supported")
        pool = _memory(problem, buffers)
        number = {_whole(buffer, "id"): tensor for tensor, buffer in enumerate(buffers)}
        reserved = [(_whole(r, "begin"), _whole(r, "end")) for r in _rows(pool, "reserved_ranges")]
        lives = [_live(buffer) for buffer in buffers]
        first, last = min(live[0][0] for live in lives), max(live[-1][1] for live in lives)
        lives += [[(first, last)]] * len(reserved)
        pins = _rows(constraints, "pinned_allocations")
        apart = [_pair(row, number) for row in _rows(constraints, "separations")]
        apart += [
            (number[_whole(pin, "buffer")], tensor)
            for pin in pins
            if pin.get("exclusive_for_all_time")
            for tensor in range(len(lives))
        ]
        never = [_pair(row, number) for row in _rows(constraints, "temporal_exclusions")]
        prices = _rows(problem.get("cost_model", {"reuse_penalties": []}), "reuse_penalties")
        return Problem(
            [_whole(b, "size") for b in buffers] + [end - begin for begin, end in reserved],
            alignment=[_whole(b, "alignment") for b in buffers] + [1] * len(reserved),
            pinned={
                **{number[_whole(pin, "buffer")]: _whole(pin, "offset") for pin in pins},
                **{len(buffers) + index: begin for index, (begin, _) in enumerate(reserved)},
            },
            reuse_prices=[
                (*_pair(row, number), cost) for row in prices if (cost := _whole(row, "cost")) > 0
            ],
            capacity=None if pool.get("capacity") is None else _whole(pool, "capacity"),
            tensor_name=[str(b.get("name", "")) for b in buffers] + ["reserved"] * len(reserved),
            name=str(whole.get("instance", path.name)),
            origin={"format": DSA_PROBLEM.name, "file": path.name, "memory": str(pool["name"])},
            **(_pairs(lives, apart, never) if apart or never else _lifetimes(lives)),
        )


def _recognises(path: Path, head: bytes) -> bool:  # noqa: ARG001 - the first field says it
    return _BEGIN.match(unpacked_head(head)) is not None


DSA_PROBLEM = Format("dsa-problem", (".json", ".json.gz"), _recognises, read_dsa_problem)


def _memory(problem: dict[str, Any], buffers: _Rows) -> dict[str, Any]:
    pools = {_whole(pool, "id"): pool for pool in _rows(problem, "pools")}
    used = {number for buffer in buffers for number in _of(buffer, "allowed_pools", list)}
    if len(used) != 1 or not used <= pools.keys():
        refuse("allowed_pools", "one memory for all buffers", sorted(used))
    return pools[used.pop()]


def _live(buffer: dict[str, Any]) -> list[tuple[int, int]]:
    steps = [
        (_whole(row, "lower", -INT64_MAX), _whole(row, "upper", -INT64_MAX))
        for row in _rows(buffer, "live_intervals")
    ]
    if not steps:
        refuse("live_intervals", "at least one interval", steps)
    return sorted(steps)


def _lifetimes(lives: list[list[tuple[int, int]]]) -> dict[str, Any]:
    gaps = [
        (tensor, before[1], after[0])
        for tensor, live in enumerate(lives)
        for before, after in pairwise(live)
        if before[1] < after[0]
    ]
    return {
        "start": [live[0][0] for live in lives],
        "end": [live[-1][1] for live in lives],
        "gaps": gaps,
    }


def _pairs(
    lives: list[list[tuple[int, int]]], apart: list[tuple[int, int]], never: list[tuple[int, int]]
) -> dict[str, Any]:
    """Return the pairs that may share no byte: live at once and not excluded, or kept apart."""
    excluded = {tuple(sorted(pair)) for pair in never}
    both = {
        (a, b)
        for a, b in combinations(range(len(lives)), 2)
        if (a, b) not in excluded
        and any(x[0] < y[1] and y[0] < x[1] for x in lives[a] for y in lives[b])
    }
    both.update((min(pair), max(pair)) for pair in apart if pair[0] != pair[1])
    return {"unsafe_pairs": np.array(sorted(both), dtype=np.int64).reshape(-1, 2)}


def _pair(row: dict[str, Any], number: dict[int, int]) -> tuple[int, int]:
    names = _whole(row, "first"), _whole(row, "second")
    for name in names:
        if name not in number:
            refuse("first and second", "the id of a buffer", name)
    return number[names[0]], number[names[1]]


def _rows(fields: dict[str, Any], name: str) -> _Rows:
    rows: _Rows = _of(fields, name, list)
    for row in rows:
        if not isinstance(row, dict):
            refuse(name, "a list of objects", row)
    return rows


def _of(fields: Any, name: str, kind: type[Any]) -> Any:
    value = fields.get(name) if isinstance(fields, dict) else None
    if kind is list:
        require_list(name, value)
    elif not isinstance(value, kind):
        refuse(name, "an object", value)
    return value


def _whole(fields: dict[str, Any], name: str, least: int = 0) -> int:
    value = fields.get(name)
    if type(value) is not int or not least <= value <= INT64_MAX:
        refuse(name, f"a whole number from {least} to 2**63 - 1", value)
    return value
