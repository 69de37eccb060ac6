"""The referee: slow, obvious, and without any code of the planners that it judges."""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planners.errors import InvalidPlanError
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety


def check(problem: Problem, plan: Plan) -> None:
    """Raise an error if a plan breaks a constraint of its problem.

    Raises
    ------
    InvalidPlanError
        The message has the tensors, their offsets, and the right values.
    """
    violation = find_violation(problem, plan)
    if violation is not None:
        raise InvalidPlanError(violation)


def find_violation(problem: Problem, plan: Plan) -> str | None:
    """Return the fault of a plan, by pure Python and NumPy, or None."""
    wrong = find_wrong_offset(problem, plan)
    if wrong is not None:
        return wrong
    if problem.safety is Safety.LIFETIMES:
        pair = _overlap_in_time(problem, plan.offsets)
    elif problem.safety is Safety.GRAPH:
        pair = _overlap_in_graph(problem, plan.offsets)
    else:
        pair = overlap_of_pairs(problem, plan.offsets)
    return None if pair is None else describe_overlap(problem, plan, pair)


def find_wrong_offset(problem: Problem, plan: Plan) -> str | None:
    """Return the fault of an offset of a tensor or chain, or of the peak, or None."""
    offsets = plan.offsets
    if len(offsets) != problem.tensor_count:
        return f"one offset a tensor is needed, found {len(offsets)} for {problem.tensor_count}"
    for tensor in np.flatnonzero(offsets < 0)[:1].tolist():
        return f"{problem.describe(tensor)}: offsets are at least 0, found {offsets[tensor]}"
    # The model bounds sizes, so an offset this large is wrong long before a sum can overflow.
    for tensor in np.flatnonzero(offsets > 1 << 62)[:1].tolist():
        return f"{problem.describe(tensor)}: offsets stay below 2**62, found {offsets[tensor]}"
    peak = int((offsets + problem.size).max(initial=0))
    if plan.peak != peak:
        return f"the peak is the largest offset + size, {peak}, found {plan.peak}"
    for tensor in np.flatnonzero(offsets % problem.alignment)[:1].tolist():
        return (
            f"{problem.describe(tensor)}: the offset must be a multiple of "
            f"{problem.alignment[tensor]}, found {offsets[tensor]}"
        )
    moved = (problem.pinned >= 0) & (offsets != problem.pinned)
    for tensor in np.flatnonzero(moved)[:1].tolist():
        return (
            f"{problem.describe(tensor)}: it is pinned to {problem.pinned[tensor]}, "
            f"found {offsets[tensor]}"
        )
    for chain in problem.contiguous:
        for first, second in pairwise(chain):
            if offsets[second] != offsets[first] + problem.size[first]:
                return (
                    f"{problem.describe(second)}: its chain puts it at the end of "
                    f"{problem.describe(first)}, {offsets[first] + problem.size[first]}, "
                    f"found {offsets[second]}"
                )
    return None


def describe_overlap(problem: Problem, plan: Plan, pair: tuple[int, int]) -> str:
    """Return a sentence on two unsafe tensors that share bytes."""
    spans = [
        f"{problem.describe(t)} at [{plan.offsets[t]}, {plan.offsets[t] + problem.size[t]})"
        for t in pair
    ]
    return f"unsafe tensors share bytes: {spans[0]} and {spans[1]}"


def _overlap_in_time(problem: Problem, offsets: NDArray[np.int64]) -> tuple[int, int] | None:
    """Sweep the steps; live tensors are kept by offset, and each new one meets its neighbours."""
    rows = problem.segments()
    rows = rows[problem.size[rows[:, 0]] > 0]
    events = [(end, 0, t) for t, _, end in rows.tolist()]
    events += [(start, 1, t) for t, start, _ in rows.tolist()]
    offset, size = offsets.tolist(), problem.size.tolist()
    live: list[tuple[int, int]] = []
    for _, starts, tensor in sorted(events):
        entry = (offset[tensor], tensor)
        at = bisect_left(live, entry)
        if not starts:
            del live[at]
            continue
        for _, other in live[max(at - 1, 0) : at + 1]:
            if (
                offset[tensor] < offset[other] + size[other]
                and offset[other] < offset[tensor] + size[tensor]
            ):
                return min(tensor, other), max(tensor, other)
        insort(live, entry)
    return None


def overlap_of_pairs(problem: Problem, offsets: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return two tensors of an unsafe pair that share a byte, if any."""
    assert problem.unsafe_pairs is not None
    a, b = problem.unsafe_pairs.T
    size = problem.size
    shared = (offsets[a] < offsets[b] + size[b]) & (offsets[b] < offsets[a] + size[a])
    shared &= (size[a] > 0) & (size[b] > 0)
    for row in np.flatnonzero(shared)[:1]:
        return int(min(a[row], b[row])), int(max(a[row], b[row]))
    return None


def _overlap_in_graph(problem: Problem, offsets: NDArray[np.int64]) -> tuple[int, int] | None:
    """Compare every tensor with all others; sets of later nodes decide which pairs are safe."""
    after = nodes_after_tensors(problem)
    assert problem.graph is not None
    producer = problem.graph.producer
    size = problem.size
    byte, bit = producer >> 3, (producer & 7).astype(np.uint8)
    for tensor in np.flatnonzero(size).tolist():
        shared = (offsets < offsets[tensor] + size[tensor]) & (offsets[tensor] < offsets + size)
        shared &= size > 0
        shared[tensor] = False
        born_later = (after[tensor, byte] >> bit) & 1
        born_earlier = (after[:, byte[tensor]] >> bit[tensor]) & 1
        for other in np.flatnonzero(shared & (born_later == 0) & (born_earlier == 0))[:1].tolist():
            return min(tensor, other), max(tensor, other)
    return None


def nodes_after_tensors(problem: Problem) -> NDArray[np.uint8]:
    """Return for each tensor the nodes that all of its users precede, as rows of packed bits."""
    graph = problem.graph
    assert graph is not None
    successors: list[set[int]] = [set() for _ in range(graph.node_count)]
    last_of_stream: dict[int, int] = {}
    for node, stream in enumerate(graph.stream.tolist()):
        if stream in last_of_stream:
            successors[last_of_stream[stream]].add(node)
        last_of_stream[stream] = node
    for tensor, producer in enumerate(graph.producer.tolist()):
        successors[producer].update(graph.consumers_of(tensor).tolist())
    for first, second in graph.control.tolist():
        successors[first].add(second)
    # A whole number is a set of nodes: bit v stands for node v.
    descendants = [0] * graph.node_count
    for node in reversed(range(graph.node_count)):
        reached = 0
        for successor in successors[node] - {node}:
            reached |= descendants[successor] | 1 << successor
        descendants[node] = reached
    width = (graph.node_count + 7) // 8
    rows = np.zeros((graph.tensor_count, width), dtype=np.uint8)
    for tensor, producer in enumerate(graph.producer.tolist()):
        reached = descendants[producer]
        for user in graph.consumers_of(tensor).tolist():
            reached &= descendants[user]
        rows[tensor] = np.frombuffer(reached.to_bytes(width, "little"), dtype=np.uint8)
    return rows
