"""Plans in dsa-solver's form of a solution: pool and offset of each buffer of one document.

::

    {"schema_version": 1, "profile": "dsa_rp_v1", "instance": "example",
     "problem_fingerprint": "6edc7a539cfb4d7a", "metadata": {},
     "placements": [{"buffer": 0, "pool": 0, "offset": 32}]}
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np

from instances.formats.dsa_problem import (
    DSA_PROBLEM,
    SCHEMA_VERSION,
    named,
    numbers_of,
    part_of,
    rows_of,
    whole,
)
from instances.formats.plan_target import planned, refuse_target, require_valid_plan
from planners.errors import errors_at
from planners.files.formats import format_of
from planners.files.json_file import read_json, refuse, write_fields
from planners.model.plan import Plan, Result
from planners.model.problem import Problem

TARGET = "a solution of dsa-solver"
SOLUTION_SUFFIX = ".dsa-solution.json"


def write_dsa_solution(source: Path, problem: Problem, result: Result, path: Path) -> None:
    """Write the plan of a structured problem, read from ``source``, as dsa-solver's solution."""
    plan = planned(result)
    require_valid_plan(problem, plan)
    document, buffers, pools = _document(source)
    begins = [memory.begin for memory in problem.memories] or [0]
    memory = np.searchsorted(begins, plan.offsets, side="right") - 1
    placements = [
        {"buffer": buffer, "pool": pools[pool], "offset": offset - begins[pool]}
        for buffer, pool, offset in zip(
            buffers, memory.tolist(), plan.offsets.tolist(), strict=True
        )
    ]
    write_fields({**_head(document), "metadata": {}, "placements": placements}, path)


def read_dsa_solution(source: Path, problem: Problem, path: Path) -> Plan:
    """Read a solution for the structured problem in ``source``; nobody has judged its plan."""
    document, buffers, pools = _document(source)
    begins = [memory.begin for memory in problem.memories] or [0]
    number = {name: index for index, name in enumerate(pools)}
    with errors_at(path):
        found = read_json(path)
        if not isinstance(found, dict):
            refuse("file", "an object", found)
        for field, value in _head(document).items():
            if found.get(field) != value:
                refuse(field, f"{value}, that of {source.name},", found.get(field))
        rows = rows_of(found, "placements")
        place = {
            whole(row, "buffer"): begins[named(row, "pool", number)] + whole(row, "offset")
            for row in rows
        }
        if place.keys() != set(buffers) or len(rows) != len(buffers):
            refuse("placements", f"one for each of {len(buffers)} buffers", len(rows))
    return Plan.of(problem, [place[buffer] for buffer in buffers])


def _document(source: Path) -> tuple[dict[str, Any], list[int], list[int]]:
    """Return a structured problem as it is in its file, with the ids of buffers and pools."""
    if format_of(source).name != DSA_PROBLEM.name:
        refuse_target(TARGET, "the plan of a structured problem", format_of(source).name)
    document: dict[str, Any] = read_json(source)
    problem = part_of(document, "problem", dict)
    buffers, pools = (numbers_of(field, rows_of(problem, field)) for field in ("buffers", "pools"))
    return document, list(buffers), list(pools)


def _head(document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields by which a solution names its problem."""
    return {
        "schema_version": SCHEMA_VERSION,
        **{field: part_of(document, field, str) for field in ("profile", "instance")},
        "problem_fingerprint": fingerprint_of(document),
    }


def fingerprint_of(document: dict[str, Any]) -> str:
    """Return the hash of a document by which dsa-solver tells problems apart: FNV-1a, 64 bits.

    What aliases are called does not matter.
    """
    known = {"metadata": {}, **copy.deepcopy(document)}
    structure = known["problem"].get("pypto_structure", {"alias_classes": []})
    for alias in rows_of(structure, "alias_classes"):
        count = len(part_of(alias, "members", list))
        alias["members"] = [f"member_{index}" for index in range(count)]
    text = json.dumps(known, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"
