"""Reads and writes instance files: versioned JSON with one list a field, plain or gzipped."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from planners.errors import InstanceError, errors_at
from planners.files.json_file import (
    compact_json,
    read_json,
    refuse,
    require_fields,
    require_list,
    write_fields,
)
from planners.model.blocks import NOT_PINNED
from planners.model.columns import frozen_names, frozen_rows
from planners.model.graph import Graph
from planners.model.memories import Memory
from planners.model.problem import Problem, Safety
from planners.model.work import Work
from planners.text.plain_text import shown

FORMAT = "gapless-problem"
SUFFIXES = (".json", ".json.gz")
VERSION = 1
# The format of plan files, which `planners.files.plan_file` writes. They hold no instance.
PLAN_FORMAT = "gapless-plan"

_REQUIRED = {"format", "version", "size"}
_COLUMNS = ("start", "end", "alignment", "phase_start", "phase_end", "layer_start", "layer_end")
_OPTIONAL = {
    *_COLUMNS, "name", "origin", "graph", "unsafe_pairs", "contiguous", "pinned", "gaps",
    "reuse_prices", "capacity", "dynamic", "tensor_name", "together", "apart", "exclusive",
    "memories", "places",
}  # fmt: skip
_LISTS = {
    *_COLUMNS, "size", "unsafe_pairs", "contiguous", "pinned", "gaps", "reuse_prices", "dynamic",
    "tensor_name", "together", "apart", "exclusive", "memories", "places",
}  # fmt: skip
# Fields that change no plan: what a problem is called, and the question asked of it. The work of
# a graph is another.
_NOT_IN_DIGEST = ("name", "origin", "tensor_name", "capacity", "reuse_prices")
_GRAPH_FIELDS = {"op_names", "op", "stream", "producer", "consumers", "control"}
_WORK_FIELDS = {*Work.COLUMNS, "written"}


def read_gapless_json(path: str | Path) -> Problem:
    """Read an instance file of this format; :func:`planners.read_problem` reads every format."""
    path = Path(path)
    with errors_at(path):
        return problem_from_fields(read_json(path))


def write_problem(problem: Problem, path: str | Path) -> None:
    """Write an instance file, the same bytes for the same problem.

    Parameters
    ----------
    problem
        The problem to write.
    path
        Target; gzipped if the name ends in ``.gz``.

    Raises
    ------
    GaplessError
        The file cannot be written; an old file of this name stays.
    """
    write_fields(problem_to_fields(problem), Path(path))


def problem_to_fields(problem: Problem) -> dict[str, Any]:
    """Return the content of an instance file; fields with default values are left out."""
    fields: dict[str, Any] = {"format": FORMAT, "version": VERSION, "name": problem.name}
    if problem.origin:
        fields["origin"] = dict(problem.origin)
    if problem.capacity is not None:
        fields["capacity"] = problem.capacity
    fields["size"] = problem.size.tolist()
    if problem.safety is Safety.LIFETIMES:
        fields["start"] = problem.start.tolist()
        fields["end"] = problem.end.tolist()
    if (problem.alignment != 1).any():
        fields["alignment"] = problem.alignment.tolist()
    if problem.contiguous:
        fields["contiguous"] = [list(chain) for chain in problem.contiguous]
    pins = np.flatnonzero(problem.pinned != NOT_PINNED)
    if len(pins):
        fields["pinned"] = np.column_stack([pins, problem.pinned[pins]]).tolist()
    if len(problem.gaps):
        fields["gaps"] = problem.gaps.tolist()
    if len(problem.reuse_prices):
        fields["reuse_prices"] = problem.reuse_prices.tolist()
    if problem.together:
        fields["together"] = [list(group) for group in problem.together]
    for field in ("apart", "exclusive", "places"):
        if len(getattr(problem, field)):
            fields[field] = getattr(problem, field).tolist()
    if problem.memories:
        fields["memories"] = [_memory_to_fields(memory) for memory in problem.memories]
    if problem.unsafe_pairs is not None:
        fields["unsafe_pairs"] = problem.unsafe_pairs.tolist()
    for field in ("phase_start", "phase_end", "layer_start", "layer_end", "dynamic"):
        column = getattr(problem, field)
        if column is not None:
            fields[field] = column.tolist()
    if problem.graph is not None:
        fields["graph"] = _graph_to_fields(problem.graph)
    if problem.tensor_name is not None:
        fields["tensor_name"] = list(problem.tensor_name)
    return fields


def problem_from_fields(fields: Any) -> Problem:
    """Build a problem from the content of an instance file."""
    if isinstance(fields, dict) and fields.get("format") == PLAN_FORMAT:
        raise InstanceError(
            f"this file is a plan for the instance {shown(fields.get('instance'))}: give that "
            f"instance here; instances.convert and gapless replay verify read a plan as --plan, "
            f"planners.read_plan reads it in Python"
        )
    if isinstance(fields, dict) and fields.get("format", FORMAT) != FORMAT:
        refuse("format", repr(FORMAT), fields["format"])
    require_fields("", fields, _REQUIRED, _OPTIONAL)
    if type(fields["version"]) is not int or fields["version"] != VERSION:
        refuse("version", f"{VERSION} (the only one so far)", fields["version"])
    for field in sorted(_LISTS & fields.keys()):
        require_list(field, fields[field])
    if "capacity" in fields and fields["capacity"] is None:
        refuse("capacity", "a whole number of bytes", None)
    if not isinstance(fields.get("origin", {}), dict):
        refuse("origin", "an object", fields["origin"])
    return Problem(
        fields["size"],
        graph=_graph_from_fields(fields["graph"]) if "graph" in fields else None,
        unsafe_pairs=fields.get("unsafe_pairs"),
        contiguous=fields.get("contiguous", []),
        pinned=_pins(fields.get("pinned", [])),
        gaps=fields.get("gaps", []),
        reuse_prices=fields.get("reuse_prices", []),
        together=fields.get("together", []),
        apart=fields.get("apart", []),
        exclusive=fields.get("exclusive", []),
        memories=[_memory_from_fields(row) for row in fields.get("memories", [])],
        places=fields.get("places", []),
        capacity=fields.get("capacity"),
        dynamic=fields.get("dynamic"),
        tensor_name=fields.get("tensor_name"),
        name=fields.get("name", "problem"),
        origin=fields.get("origin", {}),
        **{column: fields.get(column) for column in _COLUMNS},
    )


def problem_digest(problem: Problem) -> str:
    """Return the digest of a problem; problems with the same digest have the same plans."""
    fields = problem_to_fields(problem)
    for field in _NOT_IN_DIGEST:
        fields.pop(field, None)
    fields.get("graph", {}).pop("work", None)
    return "sha256:" + hashlib.sha256(compact_json(fields).encode()).hexdigest()


def _graph_to_fields(graph: Graph) -> dict[str, Any]:
    op_names = list(dict.fromkeys(graph.op))
    code = {name: index for index, name in enumerate(op_names)}
    bounds = graph.consumer_offsets.tolist()
    nodes = graph.consumer_nodes.tolist()
    fields = {
        "op_names": op_names,
        "op": [code[name] for name in graph.op],
        "stream": graph.stream.tolist(),
        "producer": graph.producer.tolist(),
        "consumers": [nodes[a:b] for a, b in pairwise(bounds)],
        "control": graph.control.tolist(),
    }
    if graph.work is not None:
        fields["work"] = {
            field: getattr(graph.work, field).tolist() for field in sorted(_WORK_FIELDS)
        }
    return fields


def _graph_from_fields(fields: Any) -> Graph:
    require_fields("graph.", fields, _GRAPH_FIELDS, {"work"})
    for field in sorted(_GRAPH_FIELDS):
        require_list(f"graph.{field}", fields[field])
    op_names = frozen_names("graph.op_names", fields["op_names"], entry="entry")
    for node, code in enumerate(fields["op"]):
        if type(code) is not int or not 0 <= code < len(op_names):
            refuse(f"graph.op, node {node}", f"an index into the {len(op_names)} op_names", code)
    return Graph(
        op=[op_names[code] for code in fields["op"]],
        stream=fields["stream"],
        producer=fields["producer"],
        consumers=fields["consumers"],
        control=fields["control"],
        work=_work_from_fields(fields["work"]) if "work" in fields else None,
    )


def _work_from_fields(fields: Any) -> Work:
    require_fields("graph.work.", fields, _WORK_FIELDS, set())
    for field in sorted(_WORK_FIELDS):
        require_list(f"graph.work.{field}", fields[field])
    return Work(**fields)


def _memory_to_fields(memory: Memory) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": memory.name, "begin": memory.begin, "capacity": memory.capacity,
    }  # fmt: skip
    if memory.alignment != 1:
        fields["alignment"] = memory.alignment
    if memory.reserved:
        fields["reserved"] = [list(row) for row in memory.reserved]
    return fields


def _memory_from_fields(fields: Any) -> Memory:
    needed = {"name", "begin", "capacity"}
    require_fields("memories.", fields, needed, {"alignment", "reserved"})
    rows = frozen_rows("memories.reserved", fields.get("reserved", []), width=2).tolist()
    reserved = tuple((begin, end) for begin, end in rows)
    return Memory(
        fields["name"], fields["begin"], fields["capacity"], fields.get("alignment", 1), reserved
    )


def _pins(rows: list[Any]) -> dict[int, int]:
    pins: dict[int, int] = {}
    for tensor, offset in frozen_rows("pinned", rows, width=2).tolist():
        if tensor in pins:
            raise InstanceError(f"field pinned, tensor {tensor}: given twice")
        pins[tensor] = offset
    return pins
