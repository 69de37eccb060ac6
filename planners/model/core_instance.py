"""Hand a problem to the C++ core, which keeps a copy of what it has checked."""

from __future__ import annotations

import numpy as np

from planners import _core
from planners.errors import InstanceError
from planners.model.problem import Problem, Safety
from planners.safety.algorithms import DEFAULT_ALGORITHM, unsafe_rows

MAX_ROW_BYTES = _core.MOST_TABLE_BYTES


def make_core_instance(problem: Problem) -> _core.Instance:
    """Return the problem as the core holds it."""
    blocks = _core.Blocks(
        problem.blocks.indptr,
        problem.blocks.members.astype(np.int32),
        problem.blocks.before,
        problem.blocks.size,
        problem.blocks.modulus,
        problem.blocks.residue,
        problem.blocks.pinned,
    )
    if lifetimes_decide(problem):
        return _core.Instance.from_segments(problem.size, blocks, problem.segments())
    _require_room_for_rows(problem)
    if problem.unsafe_pairs is not None:
        rows = _core.rows_from_pairs(problem.tensor_count, problem.unsafe_pairs)
    else:
        assert problem.graph is not None
        rows = unsafe_rows(problem.graph, DEFAULT_ALGORITHM)
    return _core.Instance.from_rows(problem.size, blocks, rows)


def lifetimes_decide(problem: Problem) -> bool:
    """Return whether overlap of lifetimes is the same as being unsafe.

    Nodes of one stream run in the global order, so with a single stream every reader of one
    tensor precedes the producer of another exactly where their lifetimes are disjoint.
    """
    return problem.safety is Safety.LIFETIMES or (
        problem.safety is Safety.GRAPH and problem.stream_count <= 1
    )


def _require_room_for_rows(problem: Problem) -> None:
    tensors = problem.tensor_count
    nodes = 0 if problem.graph is None else problem.graph.node_count
    # The relation itself, and what the referee's twin keeps of a graph.
    needed = max(tensors * tensors, nodes * (nodes + tensors)) // 8
    if needed > MAX_ROW_BYTES:
        raise InstanceError(
            f"field size: {tensors} tensors and {nodes} nodes with general unsafe pairs would take "
            f"{needed} bytes of rows, and at most {MAX_ROW_BYTES} are taken"
        )
