"""The referee in C++: as fast as a planner, and tested against the naive referee."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from planners import _core
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety
from planners.referee.naive import describe_overlap, find_wrong_offset, overlap_of_pairs

# Caches the safety of each problem's tensors. To derive the safety from a graph takes longer than
# to judge an answer, and every answer to a problem is judged.
_safety_of: WeakKeyDictionary[Problem, _core.DescendantSafety] = WeakKeyDictionary()


def find_violation_fast(problem: Problem, plan: Plan) -> str | None:
    """Return the fault of a plan, by the referee in C++, or None."""
    wrong = find_wrong_offset(problem, plan)
    if wrong is not None:
        return wrong
    pair: tuple[int, int] | None
    # Nodes of a single stream run in the global order: tensors that overlap in time are unsafe.
    in_order = problem.safety is Safety.GRAPH and problem.stream_count <= 1
    if problem.pairs_decide:
        pairs = problem.core.unsafe_pairs() if problem.has_classes else problem.unsafe_pairs
        assert pairs is not None
        pair = overlap_of_pairs(problem, plan.offsets, pairs)
    elif problem.safety is Safety.LIFETIMES or in_order:
        pair = _core.find_overlap_in_time(plan.offsets, problem.size, problem.segments())
    else:
        pair = _descendant_safety(problem).find_overlap(plan.offsets, problem.size)
    return None if pair is None else describe_overlap(problem, plan, pair)


def _descendant_safety(problem: Problem) -> _core.DescendantSafety:
    if problem not in _safety_of:
        graph = problem.graph
        assert graph is not None
        _safety_of[problem] = _core.DescendantSafety(
            np.unique(graph.stream, return_inverse=True)[1].astype(np.int32),
            graph.producer.astype(np.int32),
            graph.consumer_offsets,
            graph.consumer_nodes.astype(np.int32),
            np.ascontiguousarray(graph.control, dtype=np.int32),
        )
    return _safety_of[problem]
