"""Places: the memories in which a tensor may lie, and what it costs there."""

from __future__ import annotations

import numpy as np

from planners.errors import InstanceError
from planners.model.blocks import NOT_PINNED
from planners.model.columns import IntColumn, require_each
from planners.model.memories import MAX_ADDRESS, Memory
from planners.model.problem_fields import ProblemFields
from planners.text.plain_text import shown

# Limits the sum of all costs, which every float holds exactly.
MAX_TOTAL_COST = 1 << 53


def require_places(problem: ProblemFields) -> None:
    """Raise unless each row is a tensor, a memory of the problem, and a cost."""
    rows, count = problem.places, len(problem.memories)
    if problem.memories and problem.capacity is not None:
        raise InstanceError("field capacity: each memory has its own; leave it out")
    memory, cost = rows[:, 1], rows[:, 2]
    right = (memory >= 0) & (memory < count)
    rule = f"memories are numbered from 0, and there are {count}"
    require_each("places", "entry", right, rule, memory)
    require_each("places", "entry", cost >= 0, "a cost is at least 0", cost)
    if cost.sum(dtype=np.float64) > MAX_TOTAL_COST:
        raise InstanceError("field places: all costs together must stay below 2**53")
    _, first = np.unique(rows[:, :2], axis=0, return_index=True)
    for entry in np.setdiff1d(np.arange(len(rows)), first)[:1].tolist():
        raise InstanceError(
            f"field places, entry {entry}: a tensor has one cost in a memory, found tensor "
            f"{rows[entry, 0]} and memory {rows[entry, 1]} again"
        )
    strictest = int(problem.alignment.max(initial=1))
    for memory_ in problem.memories:
        least = max(strictest, memory_.alignment)
        if memory_.begin % least:
            raise InstanceError(
                f"field memories, {shown(memory_.name)}, begin: a multiple of {least}, the largest "
                f"alignment, is needed, found {memory_.begin}"
            )


def block_places(problem: ProblemFields) -> IntColumn:
    """Return rows ``(block, memory, cost)``: where a block of bytes has room, and what it costs.

    A tensor without a row in ``places`` may lie in every memory at no cost. A tensor without bytes
    lies nowhere and costs nothing.
    """
    blocks, memories = problem.blocks, _memories_of(problem)
    allowed = np.ones((problem.tensor_count, len(memories)), dtype=bool)
    cost = np.zeros((problem.tensor_count, len(memories)), dtype=np.int64)
    tensor, memory, price = problem.places.T
    allowed[tensor] = False
    allowed[tensor, memory] = True
    cost[tensor, memory] = price
    empty = problem.size == 0
    allowed[empty], cost[empty] = True, 0
    rows = []
    for block in np.flatnonzero(blocks.size).tolist():
        entries = slice(blocks.indptr[block], blocks.indptr[block + 1])
        members = blocks.members[entries]
        for index, memory_ in enumerate(memories):
            if allowed[members, index].all() and _ranges_in(problem, block, memory_):
                rows.append((block, index, int(cost[members, index].sum())))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def block_ranges(problem: ProblemFields) -> IntColumn:
    """Return rows ``(block, first, last, modulus, residue, cost)`` of the heads a block may have.

    A head is in [first, last], and is ``residue`` modulo ``modulus``; the rows of a block ascend.
    A capacity is one memory.
    """
    memories = _memories_of(problem)
    rows = [
        (block, *row, cost)
        for block, index, cost in block_places(problem).tolist()
        for row in _ranges_in(problem, block, memories[index])
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 6)


def least_place_costs(ranges: IntColumn) -> dict[int, int]:
    """Return what each block that has room must pay, from the rows of :func:`block_ranges`."""
    dearest_first = ranges[np.argsort(-ranges[:, 5], kind="stable")]
    return dict(dearest_first[:, [0, 5]].tolist())


def _memories_of(problem: ProblemFields) -> tuple[Memory, ...]:
    if problem.capacity is None:
        return problem.memories
    return (Memory("", 0, min(problem.capacity, MAX_ADDRESS)),)


def _ranges_in(
    problem: ProblemFields, block: int, memory: Memory
) -> list[tuple[int, int, int, int]]:
    """Return rows ``(first, last, modulus, residue)`` of the heads of a block in a memory."""
    rule, rows = _head_rule(problem, block, memory), []
    if rule is None:
        return []
    modulus, residue = rule
    for begin, end in memory.free_ranges():
        first = begin + (residue - begin) % modulus
        last = end - int(problem.blocks.size[block])
        last -= (last - residue) % modulus
        pin = int(problem.blocks.pinned[block])
        if pin != NOT_PINNED:
            first, last = (pin, pin) if first <= pin <= last else (1, 0)
        if first <= last:
            rows.append((first, last, modulus, residue))
    return rows


def _head_rule(problem: ProblemFields, block: int, memory: Memory) -> tuple[int, int] | None:
    """Return modulus and residue of the heads of a block in a memory; None if it has none."""
    blocks, alignment = problem.blocks, memory.alignment
    modulus, residue = int(blocks.modulus[block]), int(blocks.residue[block])
    if residue % min(alignment, modulus) or (alignment > modulus and residue):
        return None
    modulus = max(modulus, alignment)
    pin = int(blocks.pinned[block])
    if pin == NOT_PINNED:
        return modulus, residue
    lies_in = memory.begin <= pin <= memory.end - blocks.size[block]
    return (modulus, residue) if lies_in and pin % modulus == residue else None


def used_bytes(problem: ProblemFields, offsets: IntColumn) -> list[int]:
    """Return the peak of a plan in each memory: the bytes up to the end of its highest tensor."""
    ends = (offsets + problem.size)[problem.size > 0]
    used = []
    for memory in problem.memories:
        inside = ends[(ends > memory.begin) & (ends <= memory.end)]
        used.append(int(inside.max(initial=memory.begin)) - memory.begin)
    return used
