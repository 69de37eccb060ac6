"""Problems of the ASPLOS 2025 contest IOPDDL: nodes that take memory over an interval each.

::

    {"problem": {"name": "example",
                 "nodes": {"intervals": [[30, 70], [40, 70]],
                           "costs": [[15], [55, 65]],
                           "usages": [[10], [25, 20]]},
                 "edges": {"nodes": [[0, 1]], "costs": [[30, 40]]},
                 "usage_limit": 50}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planners.errors import InstanceError, errors_at
from planners.files.formats import Format, unpacked_head
from planners.files.json_file import read_json, refuse, require_list
from planners.model.problem import Problem

# Index of the strategy that every node has.
STRATEGY = 0

_BEGIN = re.compile(rb'\s*\{\s*"problem"\s*:')


def read_iopddl_problem(path: Path) -> Problem:
    """Read a contest's problem as the tensors of its nodes in one buffer.

    The contest chooses a strategy for each node and bounds the sum of their usages at any time.
    Here each node has its first strategy, whose usage is the size of a tensor. Costs and edges are
    ignored, as are nodes with an empty interval. The bound is ``usage_limit`` in the problem's
    origin and no capacity, because it holds for the best choice of strategies.

    Source: the contest on intra-operator parallelism for distributed deep learning, ASPLOS 2025,
    pages 5-17. Its own reader is ``iopddl.cc``, public with the contest.
    """
    with errors_at(path):
        problem = _field("problem", read_json(path), "problem")
        nodes = _field("problem.nodes", problem, "nodes")
        intervals = _list("problem.nodes.intervals", nodes, "intervals")
        usages = _list("problem.nodes.usages", nodes, "usages")
        if len(intervals) != len(usages):
            raise InstanceError(
                f"field problem.nodes.usages: usages of {len(intervals)} nodes are needed, as many "
                f"as there are intervals, found {len(usages)}"
            )
        rows = list(_rows(intervals, usages))
        limit = problem.get("usage_limit")
        return Problem(
            [size for _, _, _, size in rows],
            [start for _, start, _, _ in rows],
            [end for _, _, end, _ in rows],
            tensor_name=[f"node {node}" for node, _, _, _ in rows],
            name=path.name.partition(".")[0] or path.name,
            origin={
                "format": IOPDDL.name,
                "file": path.name,
                "strategy": STRATEGY,
                **({"usage_limit": limit} if type(limit) is int else {}),
            },
        )


def _recognises(path: Path, head: bytes) -> bool:  # noqa: ARG001 - the first field says it
    return _BEGIN.match(unpacked_head(head)) is not None


IOPDDL = Format("iopddl", (".json", ".json.gz"), _recognises, read_iopddl_problem)


def _rows(intervals: list[Any], usages: list[Any]) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, interval and usage of each node whose interval is not empty."""
    for node, (interval, usage) in enumerate(zip(intervals, usages, strict=True)):
        if not (isinstance(interval, list) and len(interval) == 2 and _are_whole(interval)):
            refuse(f"problem.nodes.intervals[{node}]", "[LOWER, UPPER] as whole numbers", interval)
        if not (isinstance(usage, list) and usage and _are_whole(usage)):
            refuse(f"problem.nodes.usages[{node}]", "a whole number for each strategy", usage)
        start, end = interval
        if start != end:
            yield node, start, end, usage[STRATEGY]


def _are_whole(values: list[Any]) -> bool:
    return all(type(value) is int for value in values)


def _field(name: str, fields: Any, key: str) -> dict[str, Any]:
    value = fields.get(key) if isinstance(fields, dict) else None
    if not isinstance(value, dict):
        refuse(name, "an object", value)
    return value


def _list(name: str, fields: dict[str, Any], key: str) -> list[Any]:
    value = fields.get(key)
    require_list(name, value)
    assert isinstance(value, list)
    return value
