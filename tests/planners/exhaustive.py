"""The least cost of a plan, by trying every offset of every block."""

from __future__ import annotations

import numpy as np

from planners import Memory, Plan, Problem
from planners.referee.naive import find_violation, plan_cost
from tests.definitions import unsafe


def least_cost(problem: Problem) -> int | None:
    """Return the least cost of a plan that fits, or None if none does."""
    pairs = [pair for pair in unsafe(problem) if problem.size[list(pair)].all()]
    ends = [memory.end for memory in problem.memories]
    ends = ends or [problem.naive_bytes if problem.capacity is None else problem.capacity]
    prices = [row for row in problem.reuse_prices.tolist() if problem.size[row[:2]].all()]
    offsets = np.zeros(problem.tensor_count, dtype=np.int64)
    pieces = [
        (members, before, [head for head in range(max(ends) + 1) if all(
            _may_lie(problem, t, head + b) for t, b in zip(members, before, strict=True)
        )])
        for members, before in zip(*_pieces(problem), strict=True)
    ]  # fmt: skip
    best: int | None = None

    def place(index: int, placed: frozenset[int]) -> None:
        nonlocal best
        reuse = sum(price for a, b, price in prices
                    if a in placed and b in placed and _meet(problem, offsets, a, b))  # fmt: skip
        if best is not None and reuse >= best:
            return
        if index == len(pieces):
            plan = Plan.of(problem, offsets)
            if find_violation(problem, plan) is None:
                cost = plan_cost(problem, offsets)
                best = cost if best is None else min(best, cost)
            return
        members, before, heads = pieces[index]
        now = placed.union(members)
        for head in heads:
            for tensor, ahead in zip(members, before, strict=True):
                offsets[tensor] = head + ahead
            if not any(a in now and b in now and _meet(problem, offsets, a, b) for a, b in pairs):
                place(index + 1, now)

    place(0, frozenset())
    return best


def _may_lie(problem: Problem, tensor: int, begin: int) -> bool:
    """Return whether a tensor alone has room from an offset on."""
    end, size = begin + int(problem.size[tensor]), problem.size[tensor]
    own = {memory for t, memory, _ in problem.places.tolist() if t == tensor}
    capacity = problem.naive_bytes if problem.capacity is None else problem.capacity
    memories = problem.memories or (Memory("", 0, capacity),)
    inside = any(
        memory.begin <= begin and end <= memory.end and (not own or index in own)
        for index, memory in enumerate(memories)
    )
    return bool(begin % problem.alignment[tensor] == 0 and (size == 0 or inside))


def _pieces(problem: Problem) -> tuple[list[list[int]], list[list[int]]]:
    """Return what moves as one, chains, groups and single tensors, with the bytes before each."""
    pieces = [list(chain) for chain in problem.contiguous]
    before = [np.cumsum([0, *problem.size[chain[:-1]]]).tolist() for chain in pieces]
    pieces += [list(group) for group in problem.together]
    before += [[0] * len(group) for group in problem.together]
    held = {tensor for piece in pieces for tensor in piece}
    singles = [[tensor] for tensor in range(problem.tensor_count) if tensor not in held]
    return pieces + singles, before + [[0]] * len(singles)


def _meet(problem: Problem, offsets: np.ndarray, a: int, b: int) -> bool:
    size = problem.size
    return bool(offsets[a] < offsets[b] + size[b] and offsets[b] < offsets[a] + size[a])
