"""Hands a problem to the C++ core, which checks it and keeps a copy."""

from __future__ import annotations

import numpy as np

from planners import _core
from planners.errors import InstanceError
from planners.model.columns import IntColumn
from planners.model.graph import Graph
from planners.model.problem_fields import ProblemFields
from planners.safety.algorithms import DEFAULT_ALGORITHM, core_graph, unsafe_rows

MAX_ROW_BYTES = _core.MOST_TABLE_BYTES
# Rows of a graph up to this many bytes are always built: 20,000 tensors. A guess.
QUICK_ROW_BYTES = 50_000_000


def make_core_instance(problem: ProblemFields) -> _core.Instance:
    """Return the problem in the core's form."""
    blocks = _core.Blocks(
        problem.blocks.indptr,
        problem.blocks.members.astype(np.int32),
        problem.blocks.before,
        problem.blocks.size,
        problem.blocks.modulus,
        problem.blocks.residue,
        problem.blocks.pinned,
    )
    if problem.has_classes:
        _require_room_for_rows(problem)
        plain = _by_safety(problem, blocks)
        rows = _core.rows_from_pairs(problem.tensor_count, _with_classes(problem, plain))
        return _core.Instance.from_rows(problem.size, blocks, rows)
    return _by_safety(problem, blocks)


def _by_safety(problem: ProblemFields, blocks: _core.Blocks) -> _core.Instance:
    """Return the instance of what decides safety, without groups, pairs apart or exclusive."""
    if problem.unsafe_pairs is not None:
        _require_room_for_rows(problem)
        rows = _core.rows_from_pairs(problem.tensor_count, problem.unsafe_pairs)
        return _core.Instance.from_rows(problem.size, blocks, rows)
    graph = problem.graph
    if graph is None or problem.stream_count <= 1:
        return _core.Instance.from_segments(problem.size, blocks, problem.segments())
    if _rows_are_small(graph):
        rows = unsafe_rows(graph, DEFAULT_ALGORITHM)
        return _core.Instance.from_rows(problem.size, blocks, rows)
    return _core.Instance.from_graph(problem.size, blocks, core_graph(graph))


def _with_classes(problem: ProblemFields, plain: _core.Instance) -> IntColumn:
    """Return the unsafe pairs of a problem, from those of its instance without classes."""
    group = np.arange(problem.tensor_count)
    for members in problem.together:
        group[list(members)] = members[0]
    rows = np.concatenate((plain.unsafe_pairs(), problem.apart, problem.exclusive))
    codes = np.sort(rows, axis=1) @ (problem.tensor_count, 1)
    safe = np.isin(codes, codes[len(codes) - len(problem.exclusive) :])
    kept: IntColumn = rows[~safe & (group[rows[:, 0]] != group[rows[:, 1]])]
    return kept


def _rows_are_small(graph: Graph) -> bool:
    """Return True if rows of bits are preferred to one number for each tensor and stream."""
    row_bytes = graph.tensor_count**2 // 8
    return row_bytes <= max(QUICK_ROW_BYTES, 8 * graph.node_count * graph.stream_count)


def _require_room_for_rows(problem: ProblemFields) -> None:
    needed = problem.tensor_count**2 // 8
    if needed > MAX_ROW_BYTES:
        raise InstanceError(
            f"field size: {problem.tensor_count} tensors with explicit unsafe pairs would take "
            f"{needed} bytes of rows, and at most {MAX_ROW_BYTES} are taken"
        )
